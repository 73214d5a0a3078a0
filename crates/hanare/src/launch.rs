//! Which rank of which job this process is, as its launcher's environment says.
//!
//! `hanare run` sets `HANARE_…`; under other launchers their own variables are read, so that `srun ./program` and
//! `mpirun ./program` work where a pool is running.

use hanare_protocol::id::{JobId, JobRank, Rank};
use hanare_protocol::{Error, Result, limits};

/// How one launcher names rank, count and job.
struct Launcher {
    rank: &'static str,
    ranks: &'static [&'static str],
    /// Variables that together tell two jobs apart; all that are set are used.
    job: &'static [&'static str],
}

/// In order of trust: the more specific first (Open MPI sets PMIx's variables too, and Slurm's are set in any batch job).
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        ranks: &["OMPI_COMM_WORLD_SIZE"],
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"],
    },
    Launcher { rank: "PMI_RANK", ranks: &["PMI_SIZE"], job: &["PMI_JOBID", "HYDI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"] },
    Launcher { rank: "PALS_RANKID", ranks: &["PALS_SIZE", "PMI_SIZE"], job: &["PALS_APID"] },
    Launcher { rank: "FLUX_TASK_RANK", ranks: &["FLUX_JOB_SIZE"], job: &["FLUX_JOB_ID"] },
    Launcher { rank: "SLURM_PROCID", ranks: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"], job: &["SLURM_JOB_ID", "SLURM_STEP_ID"] },
    Launcher { rank: "PMIX_RANK", ranks: &["HANARE_RANKS"], job: &["PMIX_NAMESPACE"] },
    Launcher { rank: "RANK", ranks: &["WORLD_SIZE"], job: &["TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"] },
    Launcher { rank: "JOB_COMPLETION_INDEX", ranks: &["HANARE_RANKS"], job: &["JOB_NAME", "HOSTNAME_PREFIX"] },
];

/// This process's place in its job; `None` when it was started alone.
///
/// **Errors**: [`Error::BadSetting`] where a variable is there but makes no sense.
pub fn job_rank() -> Result<Option<JobRank>> {
    job_rank_in(&|variable| std::env::var(variable).ok().filter(|text| !text.is_empty()))
}

fn job_rank_in(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<JobRank>> {
    if let Some(rank) = lookup("HANARE_RANK") {
        let ranks = lookup("HANARE_RANKS").unwrap_or_else(|| "1".to_owned());
        let job = match lookup("HANARE_JOB") {
            Some(text) => {
                JobId(u128::from_str_radix(&text, 16).map_err(|_| bad("HANARE_JOB", &text, "up to 32 hexadecimal digits"))?)
            }
            None => job_of("hanare", &[]),
        };
        return checked(job, ("HANARE_RANK", &rank), ("HANARE_RANKS", &ranks)).map(Some);
    }
    for launcher in LAUNCHERS {
        let Some(rank) = lookup(launcher.rank) else { continue };
        let Some((name, ranks)) = launcher.ranks.iter().find_map(|name| Some((*name, lookup(name)?))) else { continue };
        let marks: Vec<String> = launcher.job.iter().filter_map(|name| lookup(name)).collect();
        return checked(job_of(launcher.rank, &marks), (launcher.rank, &rank), (name, &ranks)).map(Some);
    }
    Ok(None)
}

/// A job's number from its launcher's marks; where it sets none, the parent process tells the jobs of one host apart.
fn job_of(launcher: &str, marks: &[String]) -> JobId {
    let mut hash = blake3::Hasher::new();
    hash.update(launcher.as_bytes());
    for mark in marks {
        hash.update(&[0]).update(mark.as_bytes());
    }
    if marks.is_empty() {
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        hash.update(&parent.to_le_bytes());
    }
    let mut number = [0; 16];
    hash.finalize_xof().fill(&mut number);
    JobId(u128::from_le_bytes(number))
}

fn checked(job: JobId, rank: (&str, &str), ranks: (&str, &str)) -> Result<JobRank> {
    let number =
        |(variable, text): (&str, &str)| -> Result<u32> { text.parse().map_err(|_| bad(variable, text, "a whole number")) };
    let (rank_number, count) = (number(rank)?, number(ranks)?);
    if count > limits::RANK_COUNT_MAX {
        return Err(bad(ranks.0, ranks.1, &format!("at most {}", limits::RANK_COUNT_MAX)));
    }
    if rank_number >= count {
        return Err(bad(rank.0, rank.1, &format!("below {} ({count})", ranks.0)));
    }
    Ok(JobRank { job, rank: Rank(rank_number), ranks: count })
}

fn bad(variable: &str, text: &str, wanted: &str) -> Error {
    Error::BadSetting { key: variable.to_owned(), value: text.to_owned(), reason: format!("it must be {wanted}") }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(pairs: &[(&str, &str)]) -> Result<Option<JobRank>> {
        job_rank_in(&|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()))
    }

    #[test]
    fn each_launcher_is_understood() {
        for pairs in [
            [("HANARE_RANK", "3"), ("HANARE_RANKS", "8"), ("HANARE_JOB", "ab")],
            [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "8"), ("PMIX_NAMESPACE", "x")],
            [("PMI_RANK", "3"), ("PMI_SIZE", "8"), ("PMI_JOBID", "x")],
            [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "8"), ("SLURM_JOB_ID", "x")],
            [("RANK", "3"), ("WORLD_SIZE", "8"), ("MASTER_ADDR", "x")],
            [("JOB_COMPLETION_INDEX", "3"), ("HANARE_RANKS", "8"), ("JOB_NAME", "x")],
        ] {
            let found = detect(&pairs).unwrap().unwrap();
            assert_eq!((found.rank, found.ranks), (Rank(3), 8), "{pairs:?}");
        }
        assert_eq!(detect(&[]), Ok(None));
    }

    #[test]
    fn two_jobs_of_one_launcher_differ_and_one_job_agrees_with_itself() {
        let job = |id| detect(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_JOB_ID", id)]).unwrap().unwrap().job;
        assert_eq!(job("7"), job("7"));
        assert_ne!(job("7"), job("8"));
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
}
