//! The equations of the optimised system [EU §6.3], in the paper's own symbols.
use crate::parameters::Parameters;

/// Inputs of the equations.
#[derive(Clone, Copy, Debug)]
pub struct Optimised {
    /// Bus cycle C in ns.
    pub c: f64,
    /// Node distance d in m.
    pub d: f64,
    /// Carrier f in MHz.
    pub f: f64,
    /// Phase difference F in ns.
    pub phase: f64,
    /// Address packet in bytes.
    pub p_addr: f64,
    /// Data packet in bytes.
    pub p_data: f64,
    /// Constant part of the data line's delay in ns.
    pub data_const: f64,
    /// Constant part of the arbitration line's delay in ns.
    pub arbitration_const: f64,
    /// Delay of fibre in ns/m.
    pub fibre: f64,
    /// Block in bytes.
    pub block: f64,
}

impl Optimised {
    /// The inputs at the parameters' distance and rate.
    pub fn new(p: &Parameters) -> Optimised {
        let c = 1e3 / p.get("bus.clock");
        Optimised {
            c,
            d: p.get_in("line.distance", "m"),
            f: p.get("line.carrier"),
            phase: p.get("line.phase") * c,
            p_addr: p.get("packet.address"),
            p_data: p.get("packet.data"),
            data_const: p.get("line.data_const"),
            arbitration_const: p.get("line.arbitration_const"),
            fibre: p.get("line.fibre_delay"),
            block: p.get("cache.block"),
        }
    }

    /// The same at another distance in m and carrier in MHz.
    pub fn at(self, d: f64, f: f64) -> Optimised {
        Optimised { d, f, ..self }
    }

    /// Time of a byte on the line in ns.
    pub fn v(&self) -> f64 {
        1e4 / self.f
    }

    /// Delay of the data line in ns.
    pub fn d_dat(&self) -> f64 {
        self.data_const + self.fibre * self.d
    }

    /// Delay of the arbitration line of this distance's half in ns.
    pub fn d_arb(&self) -> f64 {
        self.arbitration_const + self.fibre * self.d / 2.0
    }

    fn trip(&self, cycles: f64) -> f64 {
        cycles * self.c + 2.0 * self.d_dat() + 2.0 * self.phase
    }

    /// Burst read response in ns.
    // FEATURE: EU-F21
    pub fn trb(&self) -> f64 {
        self.trip(28.0) + self.v() * (self.p_addr + self.p_data)
    }

    /// Burst write response in ns.
    pub fn twb(&self) -> f64 {
        self.trip(21.0) + self.v() * self.p_addr
    }

    /// Burst read throughput in MB/s.
    pub fn thr(&self) -> f64 {
        1e3 * self.block / (self.trip(27.0) + self.v() * self.p_addr)
    }

    /// Burst write throughput in MB/s.
    pub fn thw(&self) -> f64 {
        1e3 * self.block / (self.trip(28.0) + self.v() * (self.p_addr + self.p_data))
    }

    /// The distance at which the burst read takes `ns`, the arbiter's round trip added or not.
    pub fn distance_limit(&self, ns: f64, has_arbiter_trip: bool) -> f64 {
        let at_zero = self.at(0.0, self.f);
        let (base, slope) = if has_arbiter_trip {
            (at_zero.trb() + 2.0 * at_zero.d_arb(), 3.0 * self.fibre)
        } else {
            (at_zero.trb(), 2.0 * self.fibre)
        };
        (ns - base) / slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::facts;
    use crate::papers::euphoria::parameters;

    #[test]
    fn the_equations_give_the_derived_values() {
        let base = Optimised::new(&parameters());
        for (name, d, f) in [
            ("d11p2.f250", 11.2, 250.0),
            ("d10.f250", 10.0, 250.0),
            ("d10.f1000", 10.0, 1e3),
            ("d100.f250", 100.0, 250.0),
            ("d100.f1000", 100.0, 1e3),
        ] {
            let at = base.at(d, f);
            for (symbol, got) in [("Trb", at.trb()), ("Twb", at.twb()), ("Thr", at.thr()), ("Thw", at.thw())] {
                let want = facts().number(&format!("eu.calc.{symbol}.{name}"));
                assert!((got - want).abs() < 1e-3, "{symbol} {name}: {got}, not {want}");
            }
        }
    }

    #[test]
    fn the_distance_limits_are_the_derived_ones() {
        let base = Optimised::new(&parameters());
        assert!((base.distance_limit(5e3, false) - facts().number("eu.check.d_limit_5us")).abs() < 0.01);
        assert!((base.distance_limit(5e3, true) - facts().number("eu.check.d_limit_5us_with_arbiter_rt")).abs() < 0.01);
        let with_trip = |d: f64| base.at(d, 250.0).trb() + 2.0 * base.at(d, 250.0).d_arb();
        assert!((with_trip(100.0) - facts().number("eu.check.trb_100m_plus_arbiter_rt")).abs() < 0.01);
        assert!((with_trip(10.0) - facts().number("eu.check.trb_10m_plus_arbiter_rt")).abs() < 0.01);
    }
}
