//! The process's rank and job, as its launcher's environment says.
//!
//! `hanare run` sets `HANARE_…`; under other launchers their own variables are read, so that `srun ./program` and
//! `mpirun ./program` work where a pool is running.
//!
//! A job's number must be the same for all its ranks on all hosts, and no other job's on the pool. If a launcher tells nothing that is
//! both, a job of several ranks is refused, because they would wait for each other for ever. `HANARE_JOB` helps with any launcher; a
//! universally unique id (`uuidgen`) will do. Two launchers call for it in the end. MPICH's reuses its port after some ten thousand
//! launches from one host. A Kubernetes Job may be run again under its old name (there, take it from the pods' label
//! `batch.kubernetes.io/controller-uid`).

use hanare_protocol::id::{JobId, JobRank, Rank};
use hanare_protocol::{Error, Result, limits};
use std::path::Path;

/// A launcher's names for rank, count and job.
struct Launcher {
    rank: &'static str,
    ranks: &'static [&'static str],
    /// A variable without which the others do not speak of this process.
    needs: Option<&'static str>,
    /// Marks that tell its jobs apart: the first group whose first mark is found, with those of its others that are.
    job: &'static [&'static [Mark]],
}

/// Something that all ranks of a job see alike, and no other job's.
enum Mark {
    /// The text of a variable.
    Variable(&'static str),
    /// The text of a file.
    File(&'static str),
    /// The host's name where it ends in `-` and the rank: what stands before.
    HostOfRank,
    /// The address at which MPICH's `mpiexec` waits for its proxies: hydra puts no job's number into the environment.
    Hydra,
}

use Mark::{File, HostOfRank, Hydra, Variable};

/// In order of trust: the more specific first (Open MPI sets PMIx's variables too, PALS and Flux set PMI's, and Slurm's are set in
/// any batch job).
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: &["OMPI_COMM_WORLD_SIZE"],
        needs: None,
        // The name space is 16 bits of a hash in Open MPI 4: its random bits, or its address, tell the rest.
        job: &[
            &[Variable("PMIX_NAMESPACE"), Variable("OMPI_MCA_orte_precondition_transports"), Variable("OMPI_MCA_orte_hnp_uri")],
            &[Variable("OMPI_MCA_ess_base_jobid"), Variable("OMPI_MCA_orte_hnp_uri")],
        ],
    },
    Launcher { rank: "PALS_RANKID", ranks: &["PALS_SIZE", "PMI_SIZE"], needs: None, job: &[&[Variable("PALS_APID")]] },
    Launcher { rank: "FLUX_TASK_RANK", ranks: &["FLUX_JOB_SIZE"], needs: None, job: &[&[Variable("FLUX_JOB_ID")]] },
    Launcher {
        rank: "PMI_RANK",
        ranks: &["PMI_SIZE"],
        needs: None,
        job: &[
            &[Hydra],
            &[Variable("PMI_JOBID"), Variable("SLURM_RESTART_COUNT")],
            &[Variable("SLURM_STEP_ID"), Variable("SLURM_JOB_ID"), Variable("SLURM_RESTART_COUNT")],
        ],
    },
    Launcher {
        rank: "SLURM_PROCID",
        ranks: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        // A batch script has a rank and a count too, but it is not one of the tasks that `srun` starts.
        needs: Some("SLURM_STEP_ID"),
        job: &[&[Variable("SLURM_JOB_ID"), Variable("SLURM_STEP_ID"), Variable("SLURM_RESTART_COUNT")]],
    },
    Launcher { rank: "PMIX_RANK", ranks: &["HANARE_RANKS"], needs: None, job: &[&[Variable("PMIX_NAMESPACE")]] },
    Launcher {
        rank: "RANK",
        ranks: &["WORLD_SIZE"],
        needs: None,
        job: &[
            &[
                Variable("TORCHELASTIC_RUN_ID"),
                Variable("TORCHELASTIC_RESTART_COUNT"),
                Variable("MASTER_ADDR"),
                Variable("MASTER_PORT"),
            ],
            &[Variable("MASTER_ADDR"), Variable("MASTER_PORT")],
        ],
    },
    // An indexed Job: its pods' host names are the Job's name and the index.
    Launcher {
        rank: "JOB_COMPLETION_INDEX",
        ranks: &["HANARE_RANKS"],
        needs: None,
        job: &[&[HostOfRank, File("/var/run/secrets/kubernetes.io/serviceaccount/namespace")]],
    },
];

/// The process's place in its job; `None` when it was started alone.
///
/// **Errors**: [`Error::BadSetting`] where a variable is there but makes no sense, or where nothing tells the job from others.
pub fn job_rank() -> Result<Option<JobRank>> {
    job_rank_in(&ThisProcess)
}

/// Visible surroundings of a process.
trait Surroundings {
    /// A variable, if it is set to something.
    fn variable(&self, name: &str) -> Option<String>;
    /// A file's text, if it can be read and holds something.
    fn file(&self, path: &str) -> Option<String>;
    /// The processes that this one descends from, its parent first.
    fn ancestors(&self) -> Vec<Ancestor>;
}

/// A process that this one descends from.
struct Ancestor {
    words: Vec<String>,
    /// Its number and start: no other process of this host has the two.
    life: String,
}

fn job_rank_in(around: &dyn Surroundings) -> Result<Option<JobRank>> {
    if let Some(rank) = around.variable("HANARE_RANK") {
        let ranks = around.variable("HANARE_RANKS").unwrap_or_else(|| "1".to_owned());
        return place(around, ("HANARE_RANK", &rank), ("HANARE_RANKS", &ranks), &[]).map(Some);
    }
    for launcher in LAUNCHERS {
        let Some(rank) = around.variable(launcher.rank) else { continue };
        if launcher.needs.is_some_and(|name| around.variable(name).is_none()) {
            continue;
        }
        let Some((name, ranks)) = launcher.ranks.iter().find_map(|name| Some((*name, around.variable(name)?))) else { continue };
        return place(around, (launcher.rank, &rank), (name, &ranks), launcher.job).map(Some);
    }
    match around.variable("HANARE_RANKS") {
        Some(ranks) => Err(bad("HANARE_RANKS", &ranks, "given with HANARE_RANK, which says what rank of them this program is")),
        None => Ok(None),
    }
}

/// The place that these variables name, in the job that these marks tell.
fn place(around: &dyn Surroundings, rank: (&str, &str), ranks: (&str, &str), job: &[&[Mark]]) -> Result<JobRank> {
    let number =
        |(variable, text): (&str, &str)| -> Result<u32> { text.parse().map_err(|_| bad(variable, text, "a whole number")) };
    let (rank_number, count) = (number(rank)?, number(ranks)?);
    if count > limits::RANK_COUNT_MAX {
        return Err(bad(ranks.0, ranks.1, &format!("at most {}", limits::RANK_COUNT_MAX)));
    }
    if rank_number >= count {
        return Err(bad(rank.0, rank.1, &format!("below {} ({count})", ranks.0)));
    }
    let job = match around.variable("HANARE_JOB") {
        Some(text) => given_job(&text)?,
        None => match job.iter().find_map(|group| marks(around, group, rank.1)) {
            Some(marks) => hashed_job(rank.0, &marks),
            // No other process has to find this job.
            None if count == 1 => JobId(u128::from_le_bytes(hanare_memory::random::bytes()?)),
            None => return Err(nameless(rank, count)),
        },
    };
    Ok(JobRank { job, rank: Rank(rank_number), ranks: count })
}

/// A number as a user or our launcher writes it.
fn given_job(text: &str) -> Result<JobId> {
    let digits = text.replace('-', "");
    let number = u128::from_str_radix(&digits, 16);
    number.map(JobId).map_err(|_| bad("HANARE_JOB", text, "up to 32 hexadecimal digits (dashes are skipped)"))
}

/// The group's marks that are found, if the first is.
fn marks(around: &dyn Surroundings, group: &[Mark], rank: &str) -> Option<Vec<String>> {
    let (first, others) = group.split_first()?;
    let first = first.find(around, rank)?;
    Some([first].into_iter().chain(others.iter().filter_map(|mark| mark.find(around, rank))).collect())
}

impl Mark {
    fn find(&self, around: &dyn Surroundings, rank: &str) -> Option<String> {
        match self {
            Variable(name) => around.variable(name),
            File(path) => around.file(path),
            HostOfRank => Some(around.variable("HOSTNAME")?.strip_suffix(rank)?.strip_suffix('-')?.to_owned()),
            Hydra => hydra(around),
        }
    }
}

/// The identity that MPICH's proxy on this host, an ancestor of ours, was told of its `mpiexec`.
fn hydra(around: &dyn Surroundings) -> Option<String> {
    let ancestors = around.ancestors();
    let is_proxy = |word: &String| Path::new(word).file_name().is_some_and(|name| name == "hydra_pmi_proxy");
    let proxy = ancestors.iter().find(|ancestor| ancestor.words.first().is_some_and(is_proxy))?;
    let option = |name: &str| {
        let at = proxy.words.iter().position(|word| word == name)?;
        proxy.words.get(at + 1).map(String::as_str)
    };
    let address = option("--control-port")?;
    let group = option("--pgid").unwrap_or("0");
    // All ranks below one proxy: its life tells more than a port that is used again.
    let all_here = around.variable("MPI_LOCALNRANKS") == around.variable("PMI_SIZE");
    let life = if all_here { &proxy.life } else { "" };
    Some(format!("{address} {group} {life}"))
}

fn hashed_job(launcher: &str, marks: &[String]) -> JobId {
    let mut hash = blake3::Hasher::new();
    hash.update(launcher.as_bytes());
    for mark in marks {
        hash.update(&[0]).update(mark.as_bytes());
    }
    let mut number = [0; 16];
    hash.finalize_xof().fill(&mut number);
    JobId(u128::from_le_bytes(number))
}

fn bad(variable: &str, text: &str, wanted: &str) -> Error {
    Error::BadSetting { key: variable.to_owned(), value: text.to_owned(), reason: format!("it must be {wanted}") }
}

fn nameless((variable, text): (&str, &str), count: u32) -> Error {
    Error::BadSetting {
        key: variable.to_owned(),
        value: text.to_owned(),
        reason: format!(
            "nothing tells which job of {count} ranks it belongs to; set HANARE_JOB (`uuidgen`), the same for all of them"
        ),
    }
}

/// The variables that a launcher of ours sets for a rank that attaches to `socket`.
pub fn variables(who: JobRank, socket: &str) -> [(&'static str, String); 4] {
    [
        ("HANARE_NODE", socket.to_owned()),
        ("HANARE_RANK", who.rank.0.to_string()),
        ("HANARE_RANKS", who.ranks.to_string()),
        ("HANARE_JOB", format!("{:032x}", who.job.0)),
    ]
}

/// The process's own surroundings.
struct ThisProcess;

/// Ancestors that are looked at: a launcher's proxy is near, and the first process has no parent.
const ANCESTORS_MAX: usize = 64;

impl Surroundings for ThisProcess {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|text| !text.is_empty())
    }

    fn file(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(path).ok().filter(|text| !text.is_empty())
    }

    fn ancestors(&self) -> Vec<Ancestor> {
        let mut next = "self".to_owned();
        let ancestor = || {
            let pid = process(&next)?.0;
            let (_, start) = process(&pid)?;
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let words = words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            let life = format!("{pid} {start}");
            next = pid;
            Some(Ancestor { words, life })
        };
        std::iter::from_fn(ancestor).take(ANCESTORS_MAX).collect()
    }
}

/// The parent's number and the start of a process.
fn process(pid: &str) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, closing parentheses too: count from the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    Some((fields.next()?.to_owned(), fields.nth(17)?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Told<'a> {
        variables: &'a [(&'a str, &'a str)],
        namespace: Option<&'a str>,
        /// The words and the life of each ancestor.
        ancestors: &'a [(&'a str, &'a str)],
    }

    impl Surroundings for Told<'_> {
        fn variable(&self, name: &str) -> Option<String> {
            self.variables.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned())
        }
        fn file(&self, _: &str) -> Option<String> {
            self.namespace.map(str::to_owned)
        }
        fn ancestors(&self) -> Vec<Ancestor> {
            let ancestor = |(words, life): &(&str, &str)| Ancestor {
                words: words.split(' ').map(str::to_owned).collect(),
                life: (*life).to_owned(),
            };
            self.ancestors.iter().map(ancestor).collect()
        }
    }

    fn detect(variables: &[(&str, &str)]) -> Result<Option<JobRank>> {
        job_rank_in(&Told { variables, ..Told::default() })
    }

    fn job(variables: &[(&str, &str)]) -> JobId {
        detect(variables).unwrap().unwrap().job
    }

    #[test]
    fn each_launcher_is_understood() {
        for pairs in [
            &[("HANARE_RANK", "3"), ("HANARE_RANKS", "8"), ("HANARE_JOB", "ab")][..],
            &[("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "8"), ("PMIX_NAMESPACE", "x")],
            &[("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "8"), ("OMPI_MCA_ess_base_jobid", "x")],
            &[("PMI_RANK", "3"), ("PMI_SIZE", "8"), ("PMI_JOBID", "x")],
            &[("PALS_RANKID", "3"), ("PMI_SIZE", "8"), ("PMI_RANK", "3"), ("PALS_APID", "x")],
            &[("FLUX_TASK_RANK", "3"), ("FLUX_JOB_SIZE", "8"), ("PMI_RANK", "3"), ("PMI_SIZE", "8"), ("FLUX_JOB_ID", "x")],
            &[("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8"), ("SLURM_JOB_ID", "x"), ("SLURM_STEP_ID", "0")],
            &[
                ("SLURM_PROCID", "3"),
                ("SLURM_STEP_NUM_TASKS", "8"),
                ("SLURM_NTASKS", "99"),
                ("SLURM_JOB_ID", "x"),
                ("SLURM_STEP_ID", "0"),
            ],
            &[("PMIX_RANK", "3"), ("HANARE_RANKS", "8"), ("PMIX_NAMESPACE", "x")],
            &[("RANK", "3"), ("WORLD_SIZE", "8"), ("MASTER_ADDR", "x")],
            &[("JOB_COMPLETION_INDEX", "3"), ("HANARE_RANKS", "8"), ("HOSTNAME", "x-3")],
        ] {
            let found = detect(pairs).unwrap().unwrap();
            assert_eq!((found.rank, found.ranks), (Rank(3), 8), "{pairs:?}");
        }
        assert_eq!(detect(&[]), Ok(None));
    }

    #[test]
    fn two_jobs_of_one_launcher_differ_and_one_job_agrees_with_itself() {
        let step =
            |rank, id, step| job(&[("SLURM_PROCID", rank), ("SLURM_NTASKS", "2"), ("SLURM_JOB_ID", id), ("SLURM_STEP_ID", step)]);
        assert_eq!(step("0", "7", "0"), step("1", "7", "0"));
        assert_ne!(step("0", "7", "0"), step("0", "8", "0"));
        assert_ne!(step("0", "7", "0"), step("0", "7", "1"));
        let elastic = |round| {
            let run = [("RANK", "0"), ("WORLD_SIZE", "2"), ("TORCHELASTIC_RUN_ID", "x"), ("TORCHELASTIC_RESTART_COUNT", round)];
            job(&run)
        };
        assert_ne!(elastic("0"), elastic("1"), "a restarted job is another");
    }

    #[test]
    fn a_count_of_ranks_without_a_rank_is_refused() {
        for ranks in ["2", "banana"] {
            let error = detect(&[("HANARE_RANKS", ranks)]).unwrap_err().to_string();
            assert!(error.contains("HANARE_RANKS cannot be") && error.contains("HANARE_RANK,"), "{error}");
        }
        assert!(detect(&[("JOB_COMPLETION_INDEX", "0"), ("HANARE_RANKS", "1")]).is_ok());
    }

    #[test]
    fn a_batch_script_is_no_task_of_its_job() {
        assert_eq!(detect(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "7")]), Ok(None));
    }

    #[test]
    fn a_job_of_mpich_is_told_by_the_port_of_its_mpiexec() {
        const PROXY: &str = "/usr/bin/hydra_pmi_proxy --control-port";
        let job = |rank, local, port: &str, life| {
            let proxy = format!("{PROXY} {port} --pgid 0");
            let variables = [("PMI_RANK", rank), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", local), ("SLURM_JOB_ID", "same")];
            let told = Told { variables: &variables, ancestors: &[("sh -c x", "9 9"), (&proxy, life)], ..Told::default() };
            job_rank_in(&told).unwrap().unwrap().job
        };
        assert_eq!(job("0", "1", "a:1", "5 5"), job("1", "1", "a:1", "6 6"), "one launch, two hosts");
        assert_ne!(job("0", "1", "a:1", "5 5"), job("0", "1", "a:2", "5 5"), "two launches, two hosts");
        assert_eq!(job("0", "2", "a:1", "5 5"), job("1", "2", "a:1", "5 5"), "one launch, one host");
        assert_ne!(job("0", "2", "a:1", "5 5"), job("0", "2", "a:1", "6 6"), "two launches, one host, one after the other");
    }

    #[test]
    fn pods_of_an_indexed_job_agree_by_their_host_names() {
        let job = |rank, host, namespace| {
            let variables = [("JOB_COMPLETION_INDEX", rank), ("HANARE_RANKS", "16"), ("HOSTNAME", host)];
            job_rank_in(&Told { variables: &variables, namespace: Some(namespace), ..Told::default() })
        };
        let number = |rank, host, namespace| job(rank, host, namespace).unwrap().unwrap().job;
        assert_eq!(number("0", "train-7-0", "a"), number("12", "train-7-12", "a"));
        assert_ne!(number("0", "train-7-0", "a"), number("0", "train-8-0", "a"));
        assert_ne!(number("0", "train-7-0", "a"), number("0", "train-7-0", "b"));
        // A pod on its host's network has the host's name: it tells nothing.
        assert!(job("0", "worker1", "a").unwrap_err().to_string().contains("HANARE_JOB"));
    }

    #[test]
    fn a_job_of_several_ranks_without_a_name_is_refused() {
        for pairs in [[("HANARE_RANK", "0"), ("HANARE_RANKS", "2")], [("PMI_RANK", "0"), ("PMI_SIZE", "2")]] {
            let error = detect(&pairs).unwrap_err().to_string();
            assert!(error.contains("HANARE_JOB") && error.contains(pairs[0].0), "{error}");
        }
        let alone = [("HANARE_RANK", "0")];
        assert_ne!(job(&alone), job(&alone), "one rank is a job of its own each time");
    }

    #[test]
    fn a_job_given_by_hand_counts_under_any_launcher() {
        let uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
        let pairs = [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMI_JOBID", "x"), ("HANARE_JOB", uuid)];
        assert_eq!(job(&pairs), JobId(0x6ba7_b810_9dad_11d1_80b4_00c0_4fd4_30c8));
        let error = detect(&[("HANARE_RANK", "0"), ("HANARE_JOB", "mine")]).unwrap_err().to_string();
        assert!(error.contains("HANARE_JOB") && error.contains("'mine'") && error.contains("hexadecimal"), "{error}");
    }

    #[test]
    fn a_rank_beyond_its_job_is_refused_by_name() {
        let error = detect(&[("HANARE_RANK", "8"), ("HANARE_RANKS", "8")]).unwrap_err().to_string();
        assert!(error.contains("HANARE_RANK") && error.contains("below"), "{error}");
    }

    #[test]
    fn what_we_set_we_read_back() {
        let who = JobRank { job: JobId(77), rank: Rank(1), ranks: 2 };
        let variables = variables(who, "@x");
        let pairs: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(detect(&pairs), Ok(Some(who)));
    }

    #[test]
    fn our_own_ancestors_are_seen() {
        let ancestors = ThisProcess.ancestors();
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        assert!(ancestors[0].life.starts_with(&format!("{parent} ")), "{}", ancestors[0].life);
        assert!(ancestors.iter().any(|ancestor| !ancestor.words[0].is_empty()));
    }
}
