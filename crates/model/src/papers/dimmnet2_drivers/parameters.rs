//! The parameters of the paper's models: its tables' inputs, and what the paper leaves open.
use crate::parameters::{Parameter, Parameters, Source};

/// How the counts of more than two nodes are scaled.
pub const EXPONENTS: &[&str] = &["log2", "printed"];

/// How the pages of the matrix product are counted: the paper's scaling of Table 6, equation (10) corrected, as printed.
pub const PAGE_READINGS: &[&str] = &["scaled", "corrected", "printed"];

const MS: (f64, f64) = (0.0, 1e9);
const PERIOD: &str = "a part of 2004; the paper gives none";

/// The table, in the order of the paper.
pub fn parameters() -> Parameters {
    let mut table = measured();
    table.extend(programs());
    table.extend(windows());
    table.extend(cluster());
    Parameters::new(table)
}

/// SOURCE: [D2 Table 4, Table 5, Table 3, §6.1]
fn measured() -> Vec<Parameter> {
    let ms = |key, fact, meaning| Parameter::cited(key, fact, MS.0, MS.1, meaning);
    vec![
        Parameter::cited("page.size", "d2.page", 512.0, 65536.0, "page of the operating system"),
        Parameter::cited(
            "file.size",
            "d2.testfile_text",
            1.0,
            65536.0,
            "size of the sequential test file; the caption says 120 MB",
        ),
        ms("file.read.1k", "d2.t4.read.1k", "measured: ReadFile of 1 KB, whole file"),
        ms("file.read.4k", "d2.t4.read.4k", "measured: ReadFile of 4 KB, whole file"),
        ms("file.read.16k", "d2.t4.read.16k", "measured: ReadFile of 16 KB, whole file"),
        ms("file.write.1k", "d2.t4.write.1k", "measured: WriteFile of 1 KB, whole file"),
        ms("file.write.4k", "d2.t4.write.4k", "measured: WriteFile of 4 KB, whole file"),
        ms("file.write.16k", "d2.t4.write.16k", "measured: WriteFile of 16 KB, whole file"),
        ms("file.mmfread.4k", "d2.t4.mmfread.4k", "measured: reading the mapped file by pages (suspect)"),
        ms("file.mmfwrite.4k", "d2.t4.mmfwrite.4k", "measured: writing the mapped file by 4 KB"),
        ms("file.mmfwrite.16k", "d2.t4.mmfwrite.16k", "measured: writing the mapped file by 16 KB"),
        Parameter::cited("os.read", "d2.t5.read", 0.0, 1e6, "operating system's cost of a ReadFile"),
        Parameter::cited("os.write", "d2.t5.write", 0.0, 1e6, "operating system's cost of a WriteFile"),
        // Beyond 20 us a page nothing of the tables' totals would be left for transfer.
        Parameter::cited(
            "os.page",
            "d2.t5.mmfread",
            0.0,
            20.0,
            "operating system's cost of a page read through a mapped file (suspect)",
        ),
        Parameter::cited("os.flush", "d2.t5.mmfwrite", 0.0, 1e6, "operating system's cost of a flush"),
        Parameter::cited("memory.size", "d2.env.memory", 16.0, 65536.0, "main memory of a node"),
        Parameter::cited("cpu.clock", "d2.env.cpu", 0.1, 10.0, "processor clock"),
    ]
}

/// SOURCE: [D2 Tables 6 to 8, Figs 9 and 10]
fn programs() -> Vec<Parameter> {
    vec![
        Parameter::cited("matrix.order", "d2.mm.n", 64.0, 65536.0, "order of the distributed matrix product"),
        Parameter::cited("matrix.calc", "d2.t6.t_calc.p1", MS.0, MS.1, "its computation on one node, at order 1024"),
        Parameter::cited("wisconsin.tuples", "d2.wis.tuples", 1.0, 1e9, "tuples of tenk1"),
        Parameter::cited("wisconsin.tuple_size", "d2.wis.tuple_size", 1.0, 4096.0, "bytes of a tuple"),
        Parameter::cited("wisconsin.calc", "d2.t7.t_calc.p1", MS.0, MS.1, "computation of query 1 on one node"),
        Parameter::cited("wisconsin.bound", "d2.wis.q4_bound", 1.0, 1e9, "tuples of the inner table that query 4 selects"),
        Parameter::cited("himeno.cells", "d2.check.himeno_cells", 4096.0, 1e12, "cells of size M"),
        Parameter::cited(
            "himeno.calc",
            "d2.t8.t_calc.p1",
            MS.0,
            MS.1,
            "computation on one node, which is the main-memory version's time",
        ),
    ]
}

/// What the windows and the modules behind them cost. The paper's figure 6 is lost and gives no numbers in the text.
fn windows() -> Vec<Parameter> {
    let ns = |key, value, why, meaning| Parameter::chosen(key, value, "ns", (0.0, 1e6), why, meaning);
    vec![
        Parameter::cited("window.size", "d3.window_limit", 64.0, 65536.0, "bytes of a window"),
        ns("window.uncached_read", 120.0, PERIOD, "one uncached 8 B read of the DIMM slot"),
        ns("window.uncached_write", 40.0, PERIOD, "one uncached 8 B write to the DIMM slot"),
        ns("window.line_read", 130.0, PERIOD, "one cached 64 B line read from the DIMM slot"),
        ns("window.line_write", 40.0, "64 B at the 1.6 GB/s of PC1600", "one combined 64 B write to the DIMM slot"),
        ns("command.issue", 80.0, "two uncached writes", "writing address and length of a command"),
        ns("command.decode", 100.0, "ten cycles of the 100 MHz controller", "controller's work for a command"),
        ns("module.row", 70.0, "row cycle of DDR-200 memory", "one access to another row of a SO-DIMM"),
        Parameter::cited("module.rate", "d3.t3.mem_bw.d2", 0.1, 100.0, "rate of the SO-DIMMs together"),
        Parameter::chosen(
            "cpu.madd",
            5.0,
            "cycles",
            (0.5, 1000.0),
            "two loads and a dependent addition of a Pentium 4",
            "one multiply-add on operands in the cache",
        ),
    ]
}

/// SOURCE: [D2 §6.3, §6.5, eq 8]
fn cluster() -> Vec<Parameter> {
    vec![
        Parameter::cited("io.unit", "d2.check.io_unit", 64.0, 65536.0, "bytes of one disk operation: Nr_0 is eight times N_page"),
        Parameter::cited("barrier.least", "d2.barrier_min", 0.0, 1e6, "least time of a barrier, as measured"),
        Parameter::chosen(
            "node.count",
            16.0,
            "nodes",
            (1.0, 1024.0),
            "the paper's largest prediction",
            "nodes of the prediction",
        ),
        Parameter::choice(
            "scaling.exponent",
            EXPONENTS,
            0,
            Source::Chosen("the text prints P - 1, Table 6 needs log2 P"),
            "exponent of the counts' scaling",
        )
        .from(&["d2.t6.nr0.p4"])
        .reading(),
        Parameter::choice(
            "scaling.pages",
            PAGE_READINGS,
            0,
            Source::Chosen("Table 6 on four nodes is 6144/1.5^2; both forms of equation (10) miss it"),
            "how pages of the matrix product are counted",
        )
        .from(&["d2.t6.n_page.p4"])
        .reading(),
        Parameter::choice(
            "transfer.from",
            super::calibration::SOURCES,
            0,
            Source::Chosen("not printed; a program that takes it from its own table repeats that table"),
            "whose table the time of an operation comes from: another program's, all solved together, or one",
        )
        .reading(),
        Parameter::choice(
            "disk.call",
            super::disk::CALL_NAMES,
            2,
            Source::Chosen("figure 7 is lost; the largest call of the paper's file benchmark"),
            "bytes of a call in the comparison of AT-dRAM and MT-dNET",
        )
        .reading(),
        Parameter::choice(
            "wisconsin.join",
            super::wisconsin::JOIN_NAMES,
            0,
            Source::Chosen("not stated"),
            "how a query compares the tuples of two tables",
        )
        .reading(),
        Parameter::cited("smb.rate", "d2.smb_limit", 0.1, 1e5, "bound of file sharing by SMB over Gigabit Ethernet"),
        Parameter::chosen("disk.rate", 50.0, "MB/s", (0.1, 1e5), PERIOD, "sequential rate of the hard disk"),
        Parameter::chosen("disk.seek", 9.0, "ms", (0.0, 1e3), PERIOD, "one random access of the hard disk"),
        Parameter::chosen("retry.loss", 0.01, "x", (0.0, 0.9), "no rate is printed", "share of remote operations that are lost"),
        Parameter::chosen(
            "retry.timeout",
            20.0,
            "us",
            (0.0, 1e6),
            "several times a remote operation",
            "wait before the first retransmission",
        ),
        Parameter::chosen(
            "retry.growth",
            2.0,
            "x",
            (1.0, 16.0),
            "longer the more retries, says the paper",
            "factor of the wait with each further one",
        ),
        Parameter::chosen(
            "retry.most",
            8.0,
            "count",
            (0.0, 64.0),
            "bounds the table",
            "retransmissions before an operation is given up",
        ),
        Parameter::chosen("seed", 1.0, "seed", (0.0, 4294967295.0), "any", "seed of the losses"),
    ]
}
