//! Few large nodes against many small ones at equal total memory: machines, power, price, compute and traffic.
use super::boards::Board;
use super::rules::RULES;
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::parameters::Parameters;

/// A service built of equal hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Hosts.
    pub hosts: f64,
    /// GB of one host, main memory and extended.
    pub host_gigabytes: f64,
    /// Power of processors, in W.
    pub cpu_power: f64,
    /// Power of everything, in W.
    pub power: f64,
    /// Price of the memory.
    pub memory_price: f64,
    /// Price of everything.
    pub price: f64,
}

/// The service with `backends` Backends a host; none is the plain PC.
pub fn service(parameters: &Parameters, backends: f64) -> Service {
    let total = parameters.get("server.total");
    let extended = backends * Board::Dimmnet3.megabytes(parameters) as f64 / 1024.0;
    let host_gigabytes = parameters.get("server.main_memory") + extended;
    let hosts = (total / host_gigabytes).ceil();
    let cpu_power = hosts * parameters.get("server.cpu_power");
    let boards = hosts * (parameters.get("server.board_power") + backends * parameters.get("server.backend_power"));
    let memory_price = hosts * host_gigabytes * parameters.get("server.memory_price");
    let host_price = parameters.get("server.host_price") + backends * parameters.get("server.backend_price");
    Service {
        hosts,
        host_gigabytes,
        cpu_power,
        power: cpu_power + boards + hosts * host_gigabytes * parameters.get("server.memory_power"),
        memory_price,
        price: memory_price + hosts * host_price,
    }
}

/// Servers of equal total memory: figure 4.
// FEATURE: D3-F26
pub fn servers(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let columns = [
        ("Backends a host", "count"),
        ("memory a host", "GB"),
        ("hosts", "count"),
        ("fewer hosts", "x"),
        ("processors' power", "kW"),
        ("power", "kW"),
        ("memory of the price", "%"),
        ("price", "MUSD"),
        ("compute of the old service", "x"),
        ("network a host needs", "MB/s"),
    ];
    let mut table = Table::new("The same memory in fewer hosts", &columns);
    let plain = service(parameters, 0.0);
    let mut plot =
        Plot::new("Hosts for the same total memory", Axis::new("Backends a host", "count"), Axis::log("hosts", "count"));
    let mut points = Vec::new();
    for backends in 0..=4_u32 {
        let service = service(parameters, f64::from(backends));
        let fewer = plain.hosts / service.hosts;
        let gain = if backends == 0 { 1.0 } else { parameters.get("server.core_gain") };
        table.row(vec![
            u64::from(backends).into(),
            service.host_gigabytes.into(),
            service.hosts.into(),
            fewer.into(),
            (service.cpu_power / 1e3).into(),
            (service.power / 1e3).into(),
            (100.0 * service.memory_price / service.price).into(),
            (service.price / 1e6).into(),
            (gain / fewer).into(),
            (fewer * parameters.get("server.query_rate")).into(),
        ]);
        points.push((f64::from(backends), service.hosts));
    }
    plot.line("hosts", points);
    outcome.plots.push(plot.figure("D3 figure 4"));
    outcome.tables.push(table);
    let large = service(parameters, parameters.get("board.backends"));
    outcome.plots.push(bars(&plain, &large));
    outcome.headline("fewer hosts", "x", plain.hosts / large.hosts);
    outcome.headline("power of the old service", "%", 100.0 * large.power / plain.power);
    outcome.note("Powers and prices are chosen figures of 2006; the paper prints none.");
    outcome
}

fn bars(plain: &Service, large: &Service) -> Plot {
    let mut plot =
        Plot::bars("Where the power goes", &["many small hosts", "few large hosts"], Axis::new("power", "kW")).stacked();
    plot.bar("processors", &[plain.cpu_power / 1e3, large.cpu_power / 1e3]);
    plot.bar("boards and memory", &[(plain.power - plain.cpu_power) / 1e3, (large.power - large.cpu_power) / 1e3]);
    plot
}

/// D3-C14.
pub fn fewer_hosts(parameters: &Parameters) -> Option<Judgement> {
    let plain = service(parameters, 0.0);
    let of = |gigabytes: f64| service(&parameters.with("board.registered_dimm", gigabytes), parameters.get("board.backends"));
    let fewer = |large: &Service| plain.hosts / large.hosts;
    let (large, small) = (of(8.0), of(1.0));
    let network = Board::Dimmnet3.network_bytes_per_second(parameters) as f64 / 1e6;
    let traffic = fewer(&large) * parameters.get("server.query_rate");
    let checks = |large: &Service| {
        vec![
            Check::new(
                "hosts for the same memory, fewer by",
                fewer(large),
                "x",
                Limit::AtLeast(RULES.word("one order of magnitude, least")),
            ),
            Check::new(
                "hosts for the same memory, fewer by",
                fewer(large),
                "x",
                Limit::AtMost(RULES.word("one order of magnitude, most")),
            ),
            Check::new(
                "a host's traffic, of its network",
                fewer(large) * parameters.get("server.query_rate") / network,
                "",
                Limit::Below(1.0),
            ),
        ]
    };
    Some(Judgement::new(
        format!(
            "{:.0} instead of {:.0} hosts: {:.1}x fewer with modules of 8 GB, {:.1}x with 1 GB; {traffic:.0} of {network:.0} MB/s of network each",
            large.hosts, plain.hosts, fewer(&large), fewer(&small)
        ),
        "Five modules of a registered DIMM beside 4 GB of main memory. Table 2 prints 1 to 8 GB for it; with the suspect 2 GB of Table 3 for all five the service needs hardly fewer hosts.",
        checks(&large),
    )
    .or("modules of 8 GB", "modules of 1 GB", checks(&small)))
}

/// D3-C19, in both of its halves.
pub fn same_memory(parameters: &Parameters) -> Option<Judgement> {
    let plain = service(parameters, 0.0);
    let large = service(parameters, parameters.get("board.backends"));
    let fewer = plain.hosts / large.hosts;
    let compute = parameters.get("server.core_gain") / fewer;
    let same_memory = (large.hosts * large.host_gigabytes) / (plain.hosts * plain.host_gigabytes);
    let memory = || {
        vec![
            Check::new(
                "memory of the service, of the old one",
                same_memory,
                "x",
                Limit::Near { printed: 1.0, tolerance: RULES.allowed(1.0) },
            ),
            Check::new("hosts, fewer by", fewer, "x", Limit::Above(1.0)),
        ]
    };
    let with_compute = memory().into_iter().chain([Check::new(
        "compute for each GB, of the old service's",
        compute,
        "x",
        Limit::Near { printed: 1.0, tolerance: RULES.allowed(1.0) },
    )]);
    Some(Judgement::new(
        format!(
            "the same memory in {fewer:.1}x fewer hosts, with {:.0} % of the power and {compute:.2} of the compute for each GB",
            100.0 * large.power / plain.power
        ),
        format!(
            "Arithmetic of counts. The claim's second half, in parentheses, needs hosts {fewer:.0} times as fast; the chosen gain of one generation (four cores of twice the speed) leaves {compute:.2}."
        ),
        memory(),
    )
    .or("memory and hosts", "memory, hosts and the compute for each GB", with_compute.collect()))
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn processors_dominate_power_and_memory_dominates_price_of_the_plain_service() {
        let (plain, large) = (service(&parameters(), 0.0), service(&parameters(), 1.0));
        assert!(plain.cpu_power > 0.5 * plain.power);
        assert!(large.memory_price > 0.5 * large.price);
        assert!(large.power < plain.power && large.price < plain.price);
    }

    #[test]
    fn more_backends_mean_fewer_hosts() {
        let hosts: Vec<f64> = (0..4).map(|count| service(&parameters(), f64::from(count)).hosts).collect();
        assert!(hosts.is_sorted_by(|a, b| a > b), "{hosts:?}");
    }
}
