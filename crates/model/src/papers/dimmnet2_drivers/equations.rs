//! Equations (1) to (12) of the paper and its scaling rule, one function each, with both readings where the printed one is suspect.
//!
//! Times are milliseconds unless a name says otherwise, as in the paper.

/// Bytes of a double, the element of the matrices and the unit of equations (10) and (12).
const DOUBLE_BYTES: f64 = 8.0;

/// SOURCE: [D2 eq 1] total time of a file access: T_os * N_call + N_size * T_TR, with N_size the total size.
pub fn total(os_per_call: f64, call_count: f64, size: f64, per_size: f64) -> f64 {
    os_per_call * call_count + size * per_size
}

/// SOURCE: [D2 eq 2] operating system's cost of a call, from two runs of one total size: dT_all / dN_call.
pub fn os_per_call(run: Run, other: Run) -> f64 {
    (run.total - other.total) / (run.call_count - other.call_count)
}

/// One measured run: its total time and the number of calls it made.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Total time.
    pub total: f64,
    /// Number of calls.
    pub call_count: f64,
}

/// SOURCE: [D2 eq 3] operating system's cost of a mapped page: (T_all - T_TR * N_size) / N_page.
pub fn os_per_page(total: f64, transfer: f64, page_count: f64) -> f64 {
    (total - transfer) / page_count
}

/// SOURCE: [D2 eq 4] estimated disk time under DriverDefault: T_os + T_DDD.
pub fn driver_default_from_os(os: f64, transfer_driver_default: f64) -> f64 {
    os + transfer_driver_default
}

/// SOURCE: [D2 eq 5] the same from a measurement with uncached windows: (T_all - T_DUN) + T_DDD.
pub fn driver_default_from_uncached(total_uncached: f64, transfer_uncached: f64, transfer_driver_default: f64) -> f64 {
    (total_uncached - transfer_uncached) + transfer_driver_default
}

/// The four parts of a node's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// Operating system.
    pub os: f64,
    /// Barrier.
    pub barrier: f64,
    /// Transfers.
    pub transfer: f64,
    /// Computation.
    pub calc: f64,
}

impl Parts {
    /// SOURCE: [D2 eq 6] T_all = T_os + T_barrier + T_tr + T_calc.
    pub fn total(&self) -> f64 {
        self.os + self.barrier + self.transfer + self.calc
    }

    /// SOURCE: [D2 eq 9] as printed: T_all - max(T_os, T_tr, T_calc); it contradicts equation (6).
    pub fn barrier_printed(&self) -> f64 {
        self.total() - self.os.max(self.transfer).max(self.calc)
    }
}

/// SOURCE: [D2 eq 9] in the reading that agrees with (6): a node waits for the slowest one, and at least `least`.
pub fn barrier_workable(nodes: &[Parts], own: usize, least: f64) -> f64 {
    let busy = |parts: &Parts| parts.os + parts.transfer + parts.calc;
    let slowest = nodes.iter().map(busy).fold(0.0, f64::max);
    slowest - busy(&nodes[own]) + least
}

/// SOURCE: [D2 eq 7] T_os = T_mmap * N_page + T_flush * N_flush.
pub fn os_of_pages(per_page: f64, page_count: f64, per_flush: f64, flush_count: f64) -> f64 {
    per_page * page_count + per_flush * flush_count
}

/// SOURCE: [D2 eq 8] T_tr: the sum over i of time times count; i = 0 is the ordinary access, i >= 1 the i-th retransmission.
pub fn transfer(times: &[f64], counts: &[f64]) -> f64 {
    times.iter().zip(counts).map(|(time, count)| time * count).sum()
}

/// SOURCE: [D2 eq 10] pages of the matrix product as printed: (N^2 + N^2/P) * 8/4096; it misses Table 6.
pub fn matrix_pages_printed(order: f64, node_count: f64, page: f64) -> f64 {
    (order * order + order * order / node_count) * DOUBLE_BYTES / page
}

/// SOURCE: [D2 eq 10, corrected] all of B and a strip of A and of C: (N^2 + 2 N^2/P) * 8/4096; Table 6 for one and two nodes.
pub fn matrix_pages(order: f64, node_count: f64, page: f64) -> f64 {
    (order * order + 2.0 * order * order / node_count) * DOUBLE_BYTES / page
}

/// SOURCE: [D2 eq 11] pages of the Wisconsin tables: sum(N_tuple) * tuple_size / 4096.
pub fn wisconsin_pages(tuple_count: f64, tuple_bytes: f64, page: f64) -> f64 {
    tuple_count * tuple_bytes / page
}

/// SOURCE: [D2 eq 12] pages of Himeno: N^3 / (2 P) * 8/4096, with N^3 the number of cells.
pub fn himeno_pages(cell_count: f64, node_count: f64, page: f64) -> f64 {
    cell_count / (2.0 * node_count) * DOUBLE_BYTES / page
}

/// How the paper's scaling divides counts by 1.5 or 2 with the number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exponent {
    /// log2 P, which Table 6 uses.
    Log2,
    /// P - 1, as printed in the text.
    Printed,
}

impl Exponent {
    /// SOURCE: [D2 §6.5(1)] a one-node count for `node_count` nodes: count / base^exponent, base 1.5 for reads, 2 for writes.
    pub fn scale(self, count: f64, base: f64, node_count: f64) -> f64 {
        let exponent = match self {
            Exponent::Log2 => node_count.log2(),
            Exponent::Printed => node_count - 1.0,
        };
        count / base.powf(exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::facts;

    #[test]
    fn printed_and_corrected_pages_are_those_of_the_facts() {
        let both = |pages: fn(f64, f64, f64) -> f64| [1.0, 2.0, 4.0].map(|nodes| pages(1024.0, nodes, 4096.0)).to_vec();
        assert_eq!(both(matrix_pages_printed), facts().fact("d2.check.eq10_printed").printed().numbers());
        assert_eq!(both(matrix_pages), facts().fact("d2.check.eq10_corrected").printed().numbers());
        assert_eq!(himeno_pages(facts().number("d2.check.himeno_cells"), 1.0, 4096.0), facts().number("d2.check.himeno_pages"));
        let bytes = wisconsin_pages(facts().number("d2.wis.tuples"), facts().number("d2.wis.tuple_size"), 1.0);
        assert_eq!(bytes, facts().number("d2.check.wis_bytes"));
    }

    #[test]
    fn both_exponents_are_those_of_the_facts() {
        let reads = facts().number("d2.t6.nr0.p1");
        let near = |got: f64, key: &str| assert!((got - facts().number(key)).abs() < 1.0, "{key}: {got}");
        near(Exponent::Log2.scale(reads, 1.5, 4.0), "d2.check.scaling_log2_nr0");
        near(Exponent::Printed.scale(reads, 1.5, 4.0), "d2.check.scaling_printed_nr0");
        near(Exponent::Printed.scale(facts().number("d2.t6.nw0.p1"), 2.0, 4.0), "d2.check.scaling_printed_nw0");
    }

    #[test]
    fn the_two_estimators_agree_where_the_measurement_is_consistent() {
        assert_eq!(driver_default_from_os(4.0, 10.0), driver_default_from_uncached(54.0, 50.0, 10.0));
    }

    #[test]
    fn the_workable_barrier_makes_every_node_end_together() {
        let mut nodes = [(5.0, 7.0, 90.0), (5.0, 9.0, 80.0), (1.0, 1.0, 100.0)].map(|(os, transfer, calc)| Parts {
            os,
            barrier: 0.0,
            transfer,
            calc,
        });
        let barriers = [0, 1, 2].map(|own| barrier_workable(&nodes, own, 1.0));
        for (parts, barrier) in nodes.iter_mut().zip(barriers) {
            parts.barrier = barrier;
        }
        assert_eq!(nodes.map(|parts| parts.total()), [103.0; 3]);
    }
}
