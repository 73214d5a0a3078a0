//! AT-dRAM as a disk, beside MT-dNET's raw transfers and file sharing over Gigabit Ethernet: figure 7.
use crate::claim::{Check, Judgement};
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::parameters::Parameters;

use super::calibration::{Operations, solved};
use super::rules::RULES;
use super::windows::rate;

const CALLS_KB: [u64; 6] = [1, 4, 16, 64, 256, 1024];

/// The disk's call time in microseconds: the operating system once, and an operation for each 512 B.
struct Disk<'a> {
    parameters: &'a Parameters,
    operations: Operations,
}

impl Disk<'_> {
    fn raw_read(&self, bytes: u64) -> f64 {
        self.operation_count(bytes) * self.operations.read * 1e3
    }

    fn raw_write(&self, bytes: u64) -> f64 {
        self.operation_count(bytes) * self.operations.write * 1e3
    }

    fn operation_count(&self, bytes: u64) -> f64 {
        bytes.div_ceil(self.parameters.bytes("io.unit")) as f64
    }

    fn read(&self, bytes: u64) -> f64 {
        self.parameters.get_in("os.read", "us") + self.raw_read(bytes)
    }

    fn write(&self, bytes: u64) -> f64 {
        self.parameters.get_in("os.write", "us") + self.raw_write(bytes)
    }

    /// How far reads and writes are below raw transfers, in percent.
    fn losses(&self, bytes: u64) -> [f64; 2] {
        let lost = |whole: f64, raw: f64| (1.0 - raw / whole) * 100.0;
        [lost(self.read(bytes), self.raw_read(bytes)), lost(self.write(bytes), self.raw_write(bytes))]
    }

    /// The greatest lead over file sharing.
    fn over_sharing(&self) -> f64 {
        CALLS_KB.iter().map(|kb| self.shared(kb * 1024) / self.read(kb * 1024)).fold(0.0, f64::max)
    }

    /// A call through SMB, or through the user's own network in its place.
    fn shared(&self, bytes: u64) -> f64 {
        match self.parameters.network() {
            Some(network) => self.parameters.get_in("os.read", "us") + network.message(bytes).as_us(),
            None => bytes as f64 * 1e6 / self.parameters.get_in("smb.rate", "B/s"),
        }
    }
}

fn mb_per_s(bytes: u64, us: f64) -> f64 {
    rate(bytes, us * 1e3)
}

/// The experiment.
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let disk = Disk { parameters, operations: solved(1, parameters) };
    let shared_name = parameters.network().map_or("SMB over Gigabit Ethernet".to_string(), |network| network.name.clone());
    let mut table = Table::new(
        "Disk performance against call size",
        &[
            ("call", "KB"),
            ("MT-dNET read", "MB/s"),
            ("AT-dRAM read", "MB/s"),
            ("lost, read", "%"),
            ("MT-dNET write", "MB/s"),
            ("AT-dRAM write", "MB/s"),
            ("lost, write", "%"),
            (&shared_name, "MB/s"),
            ("AT-dRAM over it", "x"),
        ],
    );
    for kb in CALLS_KB {
        let bytes = kb * 1024;
        let lost = |whole: f64, raw: f64| (1.0 - raw / whole) * 100.0;
        table.row(vec![
            kb.into(),
            mb_per_s(bytes, disk.raw_read(bytes)).into(),
            mb_per_s(bytes, disk.read(bytes)).into(),
            lost(disk.read(bytes), disk.raw_read(bytes)).into(),
            mb_per_s(bytes, disk.raw_write(bytes)).into(),
            mb_per_s(bytes, disk.write(bytes)).into(),
            lost(disk.write(bytes), disk.raw_write(bytes)).into(),
            mb_per_s(bytes, disk.shared(bytes)).into(),
            (disk.shared(bytes) / disk.read(bytes)).into(),
        ]);
    }
    outcome.tables.push(table);
    let mut plot = Plot::new("Disk performance", Axis::log("call size", "KB"), Axis::log("rate", "MB/s"));
    let curves: [(&str, &dyn Fn(u64) -> f64); 5] = [
        ("MT-dNET, read", &|bytes| disk.raw_read(bytes)),
        ("AT-dRAM, read", &|bytes| disk.read(bytes)),
        ("MT-dNET, write", &|bytes| disk.raw_write(bytes)),
        ("AT-dRAM, write", &|bytes| disk.write(bytes)),
        (&shared_name, &|bytes| disk.shared(bytes)),
    ];
    for (name, time) in curves {
        plot.line(name, CALLS_KB.map(|kb| (kb as f64, mb_per_s(kb * 1024, time(kb * 1024)))));
    }
    outcome.plots.push(plot.figure("D2 figure 7"));
    let [read, write] = disk.losses(16 * 1024);
    outcome.produce("d2.atdram_loss", read.max(write), Tolerance::Exact);
    outcome.headline("AT-dRAM below MT-dNET, 16 KB calls", "%", read.max(write));
    outcome.headline("AT-dRAM over file sharing, largest call", "x", disk.over_sharing());
    outcome
}

/// D2-C5.
pub fn close_to_raw(parameters: &Parameters) -> Option<Judgement> {
    let disk = Disk { parameters, operations: solved(1, parameters) };
    let call = parameters.choice_name("disk.call");
    let kb = [1, 4, 16][parameters.choice("disk.call")];
    let [read, write] = disk.losses(kb * 1024);
    Some(Judgement::new(
        format!("{read:.1} % (read) and {write:.1} % (write) below, at {call} a call"),
        "The operating system's cost stands once for a call's operations of 512 B. Figure 7 is lost and with it the size of its calls; the paper's own file benchmark makes calls of 1, 4 and 16 KB.",
        vec![Check::fact(&RULES, "d2.atdram_loss", "AT-dRAM below MT-dNET", read.max(write))],
    ))
}

/// D2-C6.
pub fn against_sharing(parameters: &Parameters) -> Option<Judgement> {
    let over = Disk { parameters, operations: solved(1, parameters) }.over_sharing();
    Some(Judgement::new(
        format!("at most {over:.1}x (read)"),
        "12 times would be 360 MB/s; the 512 B operations that Tables 6 and 8 imply end at 331 MB/s. Table 4 would imply 1.3 GB/s, which is too high for the board.",
        vec![Check::fact(&RULES, "d2.atdram_vs_smb", "AT-dRAM over file sharing, largest call", over)],
    ))
}
