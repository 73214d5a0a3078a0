//! Man pages' text beyond the command's definition: examples, settings and files of each command.

use hanare::settings::SETTINGS;

/// A file or folder, and what it is.
type File = (&'static str, &'static str);

const SOCKET: File =
    ("$XDG_RUNTIME_DIR/hanare/node.sock", "Socket of this host's node; /tmp/hanare-UID/node.sock without XDG_RUNTIME_DIR.");
const JOURNAL: File = (
    "$XDG_STATE_HOME/hanare/journal-HOST.redb",
    "The coordinator's journal: names, places and owners of regions. XDG_STATE_HOME is ~/.local/state by default.",
);
const KEY: File = ("$XDG_STATE_HOME/hanare/pool.key", "The pool's key, of mode 0600; the same on all hosts.");
const KEPT: File = ("DIR/node.kept", "Bytes of the node's regions, written at a good end with --persist DIR.");

/// Settings of every program that attaches.
const OF_CLIENTS: &[&str] = &["HANARE_NODE", "HANARE_TENANT", "HANARE_ANSWER_MS"];
const OF_NODES: &[&str] = &[
    "HANARE_KEY",
    "HANARE_STATE",
    "HANARE_ADVERTISE",
    "HANARE_SEAL",
    "HANARE_FABRIC",
    "HANARE_UCX",
    "HANARE_QUOTA",
    "HANARE_MEMORY_DIR",
    "HANARE_KEEP_FREE",
    "HANARE_COPY_RATE",
    "HANARE_NODE_THREADS",
    "HANARE_HUGE",
    "HANARE_FRAMES",
    "HANARE_KERNEL",
    "HANARE_WIRE",
    "HANARE_ANSWER_MS",
    "HANARE_LOG",
];
const OF_LAUNCHES: &[&str] =
    &["HANARE_NODE", "HANARE_SSH", "HANARE_JOB", "HANARE_FABRIC", "HANARE_UCX", "HANARE_SEAL", "HANARE_TRACE", "HANARE_PLACE"];
const OF_KEYS: &[&str] = &["HANARE_KEY", "HANARE_STATE"];
const OF_BENCHES: &[&str] = &["HANARE_PEERS", "HANARE_APPS", "HANARE_PYTHON", "HANARE_UCX"];

/// Further text of one command's page.
#[derive(Clone, Copy, Debug)]
pub struct Remarks {
    /// The page's name: `hanare-region-cp`.
    page: &'static str,
    /// Lines for a shell, each with what it does.
    pub examples: &'static [(&'static str, &'static str)],
    settings: &'static [&'static str],
    files: &'static [File],
}

/// A page that says nothing besides.
const NOTHING: Remarks = Remarks { page: "", examples: &[], settings: &[], files: &[] };

const fn notes(
    page: &'static str,
    settings: &'static [&'static str],
    files: &'static [File],
    examples: &'static [(&'static str, &'static str)],
) -> Remarks {
    Remarks { page, examples, settings, files }
}

/// Text of a page, by its name.
pub fn of(page: &str) -> Remarks {
    NOTES.iter().find(|notes| notes.page == page).copied().unwrap_or(NOTHING)
}

impl Remarks {
    /// The settings that the command reads, each with its meaning and default.
    pub fn settings(&self) -> Vec<(String, String)> {
        let is_here = |variable: &&str| self.page == "hanare" || self.settings.contains(variable);
        let listed = SETTINGS.iter().filter(|setting| is_here(&setting.variable));
        listed
            .map(|setting| (setting.variable.to_owned(), format!("{} (default: {}).", setting.meaning, setting.default)))
            .collect()
    }

    /// The files that it reads or writes.
    pub fn files(&self) -> Vec<(String, String)> {
        self.files.iter().map(|(name, what)| ((*name).to_owned(), (*what).to_owned())).collect()
    }

    /// The page that has what is common to all commands; none of itself.
    pub fn see_also(&self) -> Option<&'static str> {
        (self.page != "hanare").then_some("hanare(1): all settings, sizes, and what an exit status means.")
    }
}

const NOTES: &[Remarks] = &[
    notes(
        "hanare",
        &[],
        &[SOCKET, JOURNAL, KEY, KEPT],
        &[
            ("hanare demo", "Shows in a minute what the pool is for."),
            ("hanare run --nodes 2 ./program", "Runs a program on two nodes that are started for it and ended after it."),
            (
                "hanare node --memory 4GiB --persist kept",
                "Lends 4 GiB of this machine until it is ended, and keeps the bytes for its next start.",
            ),
            ("hanare doctor", "Tries what the pool needs of this machine."),
        ],
    ),
    notes(
        "hanare-run",
        OF_LAUNCHES,
        &[SOCKET],
        &[
            ("hanare run ./program", "One rank on the pool that runs here, or on one of one node made for it."),
            (
                "hanare run --nodes 3 -n 6 --memory 1G ./program input",
                "Three nodes of 1 GiB that treat each other as strangers, and six ranks.",
            ),
            (
                "hanare run --hosts a,b:2 -x OMP_NUM_THREADS=4 ./program",
                "A node on each of two hosts, reached by ssh; a rank on a, two on b.",
            ),
            ("hanare run --nodes 2 --record kept ./program", "Keeps what each rank does, for hanare what-if --trace kept."),
        ],
    ),
    notes(
        "hanare-node",
        OF_NODES,
        &[SOCKET, JOURNAL, KEY, KEPT],
        &[
            (
                "hanare node --memory 4GiB --persist kept",
                "Lends 4 GiB to programs of this machine; bytes are there after a good end and a new start.",
            ),
            (
                "hanare node --memory 64GiB --listen 10.0.0.1:7411",
                "Lends to a pool of several hosts, and is the one that the others join.",
            ),
            ("hanare node --memory 64GiB --join 10.0.0.1", "Joins it; pool.key was copied here before."),
            ("hanare node --memory 4GiB --socket-group users --socket-mode 0660", "Serves all of the group users."),
            (
                "hanare node --memory 4GiB --prometheus 127.0.0.1:9411 --log-json",
                "Tells metrics, /healthz and /readyz, and logs lines of JSON.",
            ),
        ],
    ),
    notes(
        "hanare-node-rm",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare node rm 2", "Takes node 2, which does not come back, out of the list; its regions are lost.")],
    ),
    notes(
        "hanare-rebalance",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare rebalance --dry-run", "Says what would move, and why."),
            ("hanare rebalance", "Moves it, and ends when all is moved."),
            ("hanare rebalance --stop", "What has not moved stays."),
        ],
    ),
    notes(
        "hanare-scrub",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare scrub results", "Compares the copies of a region, and replaces those that differ."),
            ("hanare scrub results --dry-run", "Names copies that differ, and changes nothing."),
        ],
    ),
    notes(
        "hanare-node-drain",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare node drain 2", "Moves what node 2 holds to other nodes, and ends when it holds nothing."),
            ("hanare node drain 2 --to 3,4", "The same, to these nodes alone."),
            ("hanare node drain 2 --stop", "What has not moved stays."),
        ],
    ),
    notes(
        "hanare-status",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare status", "Nodes, and what they lend."), ("hanare status --watch 5", "The same every five seconds.")],
    ),
    notes(
        "hanare-region",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare region create table 10GiB --place interleave=1MiB", "A region in chunks over all nodes."),
            ("hanare region ls", "All that this user may use."),
        ],
    ),
    notes(
        "hanare-region-create",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare region create table 10GiB --place interleave=1MiB", "Chunks of 1 MiB on all nodes in turn."),
            ("hanare region create near 64M --mode 0644", "On this host's node; others may read it."),
        ],
    ),
    notes("hanare-region-ls", OF_CLIENTS, &[SOCKET], &[("hanare region ls --json", "All regions, for scripts.")]),
    notes(
        "hanare-region-stat",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare region stat table", "Where it lies, and what happened to its pages.")],
    ),
    notes("hanare-region-resize", OF_CLIENTS, &[SOCKET], &[("hanare region resize table 20GiB", "Makes it longer.")]),
    notes(
        "hanare-region-set",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare region set table --name older --mode 0644", "Another name, and who may read it."),
            ("hanare region set table --attribute made-by=solver", "An attribute that programs agree on."),
            ("hanare region set table copies=3", "Three nodes hold each of its bytes, where it was made with --copies 2."),
        ],
    ),
    notes(
        "hanare-region-rm",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare region rm table older", "Removes two."),
            ("hanare region rm --lost", "Removes those whose bytes went with their node."),
        ],
    ),
    notes(
        "hanare-region-cp",
        OF_CLIENTS,
        &[SOCKET],
        &[
            (
                "hanare region cp table.npy table --place interleave=1MiB",
                "A file into a region, with its element type and shape.",
            ),
            ("hanare region cp table table.npy", "And back: the same file."),
        ],
    ),
    notes(
        "hanare-mount",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare mount pool", "Shows the pool as a folder until Ctrl-C."),
            ("hanare mount pool -- make -j8", "Mounts, runs, unmounts."),
            ("hanare mount safe --name safe --copies 2", "A file system whose bytes are on two nodes each."),
        ],
    ),
    notes(
        "hanare-nbd",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare nbd disk --create 4G", "Serves a region as a disk and prints its address."),
            ("hanare nbd disk -- nbdinfo $uri", "Serves it while a command runs."),
        ],
    ),
    notes(
        "hanare-serve",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare serve redis --store kv", "A store for clients of Redis, at 127.0.0.1:6379.")],
    ),
    notes(
        "hanare-serve-redis",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare serve redis --store kv --bytes 1G", "A store at 127.0.0.1:6379, for programs of this user and of root."),
            (
                "hanare serve redis --store kv --listen 0.0.0.0:6379 --secret file",
                "For other hosts, whose clients prove the secret.",
            ),
        ],
    ),
    notes(
        "hanare-queue",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("producer | hanare queue send q --create", "On one host."),
            ("hanare queue recv q --create | consumer", "On another: the pipe crosses hosts."),
        ],
    ),
    notes(
        "hanare-queue-create",
        OF_CLIENTS,
        &[SOCKET],
        &[(
            "hanare queue create q --record 64K --ports 8 --overflow spill",
            "Records of up to 64 KiB, eight writers; what overflows goes elsewhere.",
        )],
    ),
    notes("hanare-queue-ls", OF_CLIENTS, &[SOCKET], &[("hanare queue ls", "All queues.")]),
    notes("hanare-queue-stat", OF_CLIENTS, &[SOCKET], &[("hanare queue stat q", "Who uses it, and what waits.")]),
    notes("hanare-queue-send", OF_CLIENTS, &[SOCKET], &[("sort data | hanare queue send q --lines", "A record of each line.")]),
    notes(
        "hanare-queue-recv",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare queue recv q --lines --writers 2", "Until two writers have said that this was all.")],
    ),
    notes("hanare-store", OF_CLIENTS, &[SOCKET], &[("hanare store ls", "All stores, and how full each is.")]),
    notes("hanare-store-ls", OF_CLIENTS, &[SOCKET], &[("hanare store ls team.", "Those whose names begin so.")]),
    notes("hanare-key", OF_KEYS, &[KEY], &[("hanare key new pool.key", "Draws a key; copy it to the other hosts.")]),
    notes("hanare-key-new", OF_KEYS, &[KEY], &[("hanare key new", "Draws the key of this user's nodes ahead of their start.")]),
    notes(
        "hanare-key-rotate",
        OF_KEYS,
        &[KEY],
        &[("hanare key rotate", "Puts a new key first; copy the file over that of each other host.")],
    ),
    notes("hanare-key-drop-old", OF_KEYS, &[KEY], &[("hanare key drop-old", "When all hosts have the new one, on each.")]),
    notes("hanare-keeper", OF_CLIENTS, &[SOCKET], &[("hanare keeper ls", "The nodes that hold the coordinator's journal.")]),
    notes("hanare-keeper-ls", OF_CLIENTS, &[SOCKET], &[("hanare keeper ls", "Which of them is the coordinator.")]),
    notes(
        "hanare-keeper-add",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare keeper add delta:7411", "Another node holds the journal, too, from here on.")],
    ),
    notes(
        "hanare-keeper-remove",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare keeper remove alpha:7411", "That one is an ordinary node from here on.")],
    ),
    notes(
        "hanare-keeper-replace",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare keeper replace gamma:7411", "That keeper's disk is lost; it then starts with an empty folder.")],
    ),
    notes("hanare-tenant", OF_CLIENTS, &[SOCKET], &[("hanare tenant ls", "The pool's tenants, with what they use.")]),
    notes("hanare-tenant-ls", OF_CLIENTS, &[SOCKET], &[("hanare tenant ls", "What each tenant uses, and may use.")]),
    notes(
        "hanare-tenant-create",
        OF_CLIENTS,
        &[SOCKET],
        &[
            ("hanare tenant create team --quota 4G --key-file team.key", "A tenant, and the file that its programs need."),
            ("HANARE_TENANT=team.key hanare region ls", "What a program of that tenant sees."),
        ],
    ),
    notes(
        "hanare-tenant-key",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare tenant key team --key-file team.key", "Another key in the place of the one before.")],
    ),
    notes("hanare-tenant-set", OF_CLIENTS, &[SOCKET], &[("hanare tenant set team quota=8G", "It may have more from here on.")]),
    notes(
        "hanare-tenant-remove",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare tenant remove team --with-regions", "The tenant is gone, and so are its regions and their bytes.")],
    ),
    notes("hanare-journal", OF_KEYS, &[JOURNAL], &[("hanare journal check", "Whether all records are as they were written.")]),
    notes(
        "hanare-journal-check",
        OF_KEYS,
        &[JOURNAL],
        &[("hanare journal check", "Of the default journal; its coordinator has ended.")],
    ),
    notes("hanare-journal-export", OF_KEYS, &[JOURNAL], &[("hanare journal export", "A line of JSON for each record.")]),
    notes(
        "hanare-info",
        OF_CLIENTS,
        &[SOCKET],
        &[("hanare info", "This machine, the fabrics, the kernel, and every setting with its value.")],
    ),
    notes(
        "hanare-doctor",
        OF_NODES,
        &[SOCKET, KEY],
        &[("hanare doctor", "Tries each thing; its status is 1 where something is wrong.")],
    ),
    notes(
        "hanare-bench",
        OF_BENCHES,
        &[("bench/peers", "Programs in C that stand beside; HANARE_PEERS names another folder.")],
        &[
            ("hanare bench get", "One bench, as a table."),
            ("hanare bench all --json", "All of them, a line of JSON each: keep it in a file."),
            ("hanare bench --page performance.md --from results.json", "Writes a page of what was kept."),
        ],
    ),
    notes(
        "hanare-model",
        &[],
        &[],
        &[
            ("hanare model", "Lists the papers."),
            ("hanare model euphoria run --set a=1 --sweep c=1..4 --plot p.svg", "An experiment, for four values of a parameter."),
        ],
    ),
    notes(
        "hanare-what-if",
        &[],
        &[],
        &[
            ("hanare what-if --calibrate", "Measures this host once; later runs count from it."),
            ("hanare what-if --trace kept --network 100gbe-rdma --nodes 8", "What a recorded run would do there."),
        ],
    ),
    notes(
        "hanare-report",
        OF_BENCHES,
        &[],
        &[("hanare report --measure --out report.html", "Papers, models and this machine, side by side.")],
    ),
    notes("hanare-sim", &[], &[], &[("hanare sim --seed 7 --nodes 3 --minutes 5", "One run, which the seed repeats.")]),
    notes("hanare-demo", &[], &[], &[("hanare demo", "A minute."), ("hanare demo matmul --n 512", "One program, in detail.")]),
    notes("hanare-demo-matmul", OF_BENCHES, &[], &[("hanare demo matmul --n 512", "From files to a file, checked.")]),
    notes("hanare-demo-memory", &[], &[], &[("hanare demo memory --data 48MiB", "A smaller one.")]),
    notes("hanare-completions", &[], &[], &[("hanare completions bash", "For bash, on standard output.")]),
    notes(
        "hanare-top",
        &[],
        &[],
        &[("hanare top", "The whole pool, live."), ("hanare top --once --json", "One look, for a program.")],
    ),
    notes(
        "hanare-trace",
        &[],
        &[],
        &[
            ("hanare trace out.json", "Where the time of a job's timeline went, by rank and kind."),
            ("hanare trace out.json --otlp spans.json", "The same as a trace of OpenTelemetry, for a collector's file receiver."),
        ],
    ),
    notes("hanare-man", &[], &[], &[("hanare man man1", "All pages, into a folder.")]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Arguments;
    use clap::{CommandFactory, Parser};

    /// The pages' names, of commands that do something.
    fn pages(command: &clap::Command, found: &mut Vec<String>) {
        found.push(command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned());
        for part in command.get_subcommands().filter(|part| !part.is_hide_set() && part.get_name() != "help") {
            pages(part, found);
        }
    }

    #[test]
    fn every_page_has_an_example_and_every_note_a_page() {
        let mut command = Arguments::command().disable_help_subcommand(true);
        command.build();
        let mut found = Vec::new();
        pages(&command, &mut found);
        found.sort_unstable();
        let mut noted: Vec<&str> = NOTES.iter().map(|notes| notes.page).collect();
        noted.sort_unstable();
        assert_eq!(noted, found);
        assert!(NOTES.iter().all(|notes| !notes.examples.is_empty()));
    }

    #[test]
    fn every_example_is_a_line_that_the_command_takes() {
        for (line, _) in NOTES.iter().flat_map(|notes| notes.examples) {
            let own = &line[line.find("hanare ").unwrap_or_else(|| panic!("{line}: no command of ours"))..];
            let own = own.split(" | ").next().unwrap();
            Arguments::try_parse_from(own.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn every_setting_that_a_note_names_is_one() {
        for name in NOTES.iter().flat_map(|notes| notes.settings) {
            assert!(SETTINGS.iter().any(|setting| setting.variable == *name), "{name}");
        }
    }
}
