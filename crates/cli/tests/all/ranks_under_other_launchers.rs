//! Ranks that `mpirun`, `srun` or Kubernetes start attach to a running pool: each knows its rank and how many there are, all of
//! a job meet at its barrier, two jobs at once do not, and a rank that is killed is told to the others.

use crate::pool;

use hanare::{Error, Pool};
use pool::{Nodes, Running, wait_until};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const OPEN_MPI: &str = "mpirun.openmpi";
const MPICH: &str = "mpirun.mpich";

/// What a rank of the tests below runs: it meets the others, says who it is, and ends as it is told to.
pub fn rank() {
    let Some(report) = std::env::var_os("RANK_REPORT") else { return };
    let say = |text: String| {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(&report).unwrap();
        (&file).write_all(text.as_bytes()).unwrap();
    };
    let pool = Pool::attach().unwrap();
    let who = hanare::launch::job_rank().unwrap().expect("a rank of a job");
    assert_eq!((who.rank.0, who.ranks), (pool.rank(), pool.ranks()));
    pool.barrier().unwrap();
    say(format!("{}/{} {:032x} {}\n", pool.rank(), pool.ranks(), who.job.0, pool.node()));
    match std::env::var("RANK_END").as_deref() {
        // The other job runs while this one does.
        Ok("together") => {
            let other = PathBuf::from(std::env::var_os("OTHER_REPORT").unwrap());
            wait_until("the other job has met", || lines(&other).len() == who.ranks as usize);
            pool.barrier().unwrap();
        }
        Ok("killed") => {
            if pool.rank() == 1 {
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
            }
            say(match pool.barrier() {
                Err(Error::RankGone { rank, .. }) => format!("{rank} gone\n"),
                other => format!("{other:?}\n"),
            });
        }
        _ => pool.barrier().unwrap(),
    }
}

/// The words that run this file's rank.
fn rank_words() -> [String; 5] {
    let own = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let [stage, actor, exact, shown] = hanare_testkit::words("ranks_under_other_launchers::rank").map(str::to_owned);
    [own, stage, actor, exact, shown]
}

fn lines(report: &Path) -> Vec<String> {
    std::fs::read_to_string(report).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Asserts that a report has one line for each rank, all of one job, whose number is returned.
#[track_caller]
fn one_job(report: &Path, ranks: usize, said: &str) -> String {
    let mut all = lines(report);
    all.sort();
    let words: Vec<Vec<&str>> = all.iter().map(|line| line.split(' ').collect()).collect();
    let places: Vec<_> = words.iter().map(|words| words[0].to_owned()).collect();
    assert_eq!(places, (0..ranks).map(|rank| format!("{rank}/{ranks}")).collect::<Vec<_>>(), "{said}");
    let job = words[0][1];
    assert!(words.iter().all(|words| words[1] == job), "one job: {all:?}");
    job.to_owned()
}

/// `mpirun` with these words, a clean environment and its temporary files in `folder`; `None`, having said why, where it is not
/// installed.
fn mpirun(name: &str, folder: &Path, words: &[&str]) -> Option<Command> {
    if Command::new(name).arg("--version").output().is_err() {
        hanare_testkit::uninstalled(format!("no {name} (packages openmpi-bin, mpich)"));
        return None;
    }
    let mut command = pool::clean(name);
    if name == OPEN_MPI {
        // It refuses root and more ranks than cores unless told otherwise.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1").arg("--oversubscribe");
    }
    // Jobs that begin and end at once trip over each other's session folders.
    command.args(words).env("TMPDIR", folder);
    Some(command)
}

/// One job of three ranks on a pool of one node.
fn meets(name: &str) {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let Some(mut mpirun) = mpirun(name, folder.path(), &["-n", "3"]) else { return };
    mpirun.args(rank_words()).env("HANARE_NODE", &nodes.nodes[0].socket).env("RANK_REPORT", &report);
    let ended = pool::run(&mut mpirun);
    assert!(ended.status.success(), "{}", ended.stderr);
    one_job(&report, 3, &ended.stderr);
}

// FEATURE: D2-F5 D2-F8
#[test]
fn a_job_under_open_mpi_meets() {
    meets(OPEN_MPI);
}

// FEATURE: D2-F5 D2-F8
#[test]
fn a_job_under_mpich_meets() {
    meets(MPICH);
}

/// Two jobs of two ranks at once, by these launchers.
fn keep_apart(names: [&str; 2]) {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let reports = ["a", "b"].map(|name| folder.path().join(name));
    let mut jobs = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let own = folder.path().join(format!("job{index}"));
        std::fs::create_dir(&own).unwrap();
        let Some(mut mpirun) = mpirun(name, &own, &["-n", "2"]) else { return };
        mpirun.args(rank_words()).env("HANARE_NODE", &nodes.nodes[0].socket).env("RANK_END", "together");
        mpirun.env("RANK_REPORT", &reports[index]).env("OTHER_REPORT", &reports[1 - index]);
        jobs.push(Running::start(&mut mpirun));
    }
    let said: Vec<_> = jobs.into_iter().map(Running::wait).collect();
    assert!(said.iter().all(|ended| ended.status.success()), "{said:?}");
    assert_ne!(one_job(&reports[0], 2, &said[0].stderr), one_job(&reports[1], 2, &said[1].stderr));
}

#[test]
fn two_jobs_at_once_under_open_mpi_are_two() {
    keep_apart([OPEN_MPI; 2]);
}

#[test]
fn two_jobs_at_once_under_mpich_are_two() {
    keep_apart([MPICH; 2]);
}

/// Four ranks on two pretended hosts, each with a node of its own; `remote` names the shell that reaches a host.
fn spans(name: &str, remote: impl Fn(&str) -> Vec<String>) {
    let nodes = Nodes::start(2);
    let folder = tempfile::tempdir().unwrap();
    let (report, shell) = (folder.path().join("report"), folder.path().join("shell"));
    // As ssh: options, the host's name, then words that a shell of that host puts together. Open MPI's daemons write one
    // file a host for the host's layout, which two on one host would share and break.
    let script = format!(
        "#!/bin/sh\nwhile :; do case $1 in -*) shift ;; *) break ;; esac; done\nhost=$1\nshift\n\
         case $host in hosta) HANARE_NODE={} ;; hostb) HANARE_NODE={} ;; esac\n\
         TMPDIR=$TMPDIR/$host\nmkdir -p \"$TMPDIR\"\nexport HANARE_NODE TMPDIR\nexec sh -c \"$*\"\n",
        nodes.nodes[0].socket, nodes.nodes[1].socket
    );
    std::fs::write(&shell, script).unwrap();
    std::fs::set_permissions(&shell, PermissionsExt::from_mode(0o700)).unwrap();
    let words = remote(shell.to_str().unwrap());
    let Some(mut mpirun) = mpirun(name, folder.path(), &words.iter().map(String::as_str).collect::<Vec<_>>()) else { return };
    let ended = pool::run(mpirun.args(rank_words()).env("RANK_REPORT", &report));
    assert!(ended.status.success(), "{}", ended.stderr);
    one_job(&report, 4, &ended.stderr);
    for node in ["node 0", "node 1"] {
        let ranks = lines(&report).iter().filter(|line| line.ends_with(node)).count();
        assert_eq!(ranks, 2, "ranks on {node}: {:?}", lines(&report));
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_job_over_two_hosts_under_open_mpi_is_one() {
    spans(OPEN_MPI, |shell| words(&format!("--mca plm_rsh_agent {shell} --host hosta:2,hostb:2 -n 4")));
}

#[test]
fn a_job_over_two_hosts_under_mpich_is_one() {
    spans(MPICH, |shell| words(&format!("-launcher ssh -launcher-exec {shell} -hosts hosta:2,hostb:2 -n 4")));
}

/// A rank is killed behind a shell: the launcher does not see it, and ends nobody; the others are told by the pool alone.
fn tells_of_the_killed(name: &str) {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let Some(mut mpirun) = mpirun(name, folder.path(), &["-n", "3", "sh", "-c", "\"$@\" || exit 0", "sh"]) else { return };
    mpirun.args(rank_words()).env("HANARE_NODE", &nodes.nodes[0].socket);
    let ended = pool::run(mpirun.env("RANK_REPORT", &report).env("RANK_END", "killed"));
    assert!(ended.status.success(), "{}", ended.stderr);
    let gone = lines(&report).into_iter().filter(|line| line.ends_with("gone")).collect::<Vec<_>>();
    assert_eq!(gone, ["rank 1 gone"; 2], "{:?} {}", lines(&report), ended.stderr);
}

// FEATURE: D2-F8
#[test]
fn a_killed_rank_under_open_mpi_is_told() {
    tells_of_the_killed(OPEN_MPI);
}

// FEATURE: D2-F8
#[test]
fn a_killed_rank_under_mpich_is_told() {
    tells_of_the_killed(MPICH);
}

/// The processes of one job, each with its variables; the first half on the first node, the others on the second.
fn by_hand(nodes: &Nodes, report: &Path, ranks: &[Vec<(&str, String)>], end: &[(&str, &Path)]) -> Vec<Running> {
    let start = |(index, variables): (usize, &Vec<(&str, String)>)| {
        let [program, words @ ..] = rank_words();
        let mut command = pool::clean(program);
        command.args(words).envs(variables.iter().map(|(name, value)| (name, value))).env("RANK_REPORT", report);
        command.envs(end.iter().map(|(name, value)| (name, value)));
        Running::start(command.env("HANARE_NODE", &nodes.nodes[index * nodes.nodes.len() / ranks.len()].socket))
    };
    ranks.iter().enumerate().map(start).collect()
}

/// What `srun -N 2 -n 4` gives each task of a step, beside what the batch job around it has.
fn slurm_step(job: &str, step: &str) -> Vec<Vec<(&'static str, String)>> {
    let task = |rank: usize| {
        let pairs = [
            ("SLURM_JOB_ID", job),
            ("SLURM_JOBID", job),
            ("SLURM_STEP_ID", step),
            ("SLURM_STEPID", step),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_STEP_NUM_NODES", "2"),
            ("SLURM_STEP_NODELIST", "host[a-b]"),
            // Of the allocation, which is larger.
            ("SLURM_NTASKS", "16"),
            ("SLURMD_NODENAME", ["hosta", "hostb"][rank / 2]),
        ];
        let numbers = [("SLURM_PROCID", rank), ("SLURM_LOCALID", rank % 2), ("SLURM_NODEID", rank / 2)];
        let numbers = numbers.map(|(name, number)| (name, number.to_string()));
        pairs.map(|(name, text)| (name, text.to_owned())).into_iter().chain(numbers).collect()
    };
    (0..4).map(task).collect()
}

/// What an indexed Job of this name gives each of its four pods, whose user has set the count.
fn kubernetes_job(name: &str) -> Vec<Vec<(&'static str, String)>> {
    let pod = |rank: usize| {
        let host = format!("{name}-{rank}");
        vec![("JOB_COMPLETION_INDEX", rank.to_string()), ("HOSTNAME", host), ("HANARE_RANKS", "4".to_owned())]
    };
    (0..4).map(pod).collect()
}

/// Two jobs at once on two pretended hosts with a node each.
fn two_by_hand(jobs: [Vec<Vec<(&str, String)>>; 2]) {
    let nodes = Nodes::start(2);
    let folder = tempfile::tempdir().unwrap();
    let reports = ["a", "b"].map(|name| folder.path().join(name));
    let mut running = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let end = [("RANK_END", Path::new("together")), ("OTHER_REPORT", &reports[1 - index])];
        running.extend(by_hand(&nodes, &reports[index], job, &end));
    }
    let said: Vec<_> = running.into_iter().map(Running::wait).collect();
    let said: String =
        said.into_iter().map(|ended| format!("{}{}", String::from_utf8_lossy(&ended.stdout), ended.stderr)).collect();
    assert_ne!(one_job(&reports[0], 4, &said), one_job(&reports[1], 4, &said));
}

#[test]
fn steps_under_slurm_meet_and_are_told_apart() {
    two_by_hand([slurm_step("4711", "0"), slurm_step("4711", "1")]);
}

#[test]
fn indexed_jobs_under_kubernetes_meet_and_are_told_apart() {
    two_by_hand([kubernetes_job("train"), kubernetes_job("train-7")]);
}

// FEATURE: D2-F8
#[test]
fn a_killed_task_under_slurm_is_told() {
    let nodes = Nodes::start(2);
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let tasks = by_hand(&nodes, &report, &slurm_step("4712", "0"), &[("RANK_END", Path::new("killed"))]);
    let said: Vec<_> = tasks.into_iter().map(Running::wait).collect();
    let gone = lines(&report).into_iter().filter(|line| line.ends_with("gone")).collect::<Vec<_>>();
    assert_eq!(gone, ["rank 1 gone"; 3], "{said:?}");
}
