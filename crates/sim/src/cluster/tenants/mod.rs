//! Tenants: an operator makes, changes and removes them, and programs that have their keys work on their regions.
//!
//! The names of a few tenants come again and again. All tenants use the same few names of regions, so a mistake shows.
//! Programs bring the key that they have read. It may be an earlier one, or that of a tenant that was removed meanwhile.
//!
//! | decided by | what must hold |
//! |---|---|
//! | `TenantChecks` | a program is a tenant's whose key it brought; it sees, opens and lists regions of that tenant alone; other users see none of them |
//! | the same | bytes come to a tenant within its quota; a removed tenant has nothing, and its number is no other's |
//! | `programs` | grants open a tenant's own bytes; answers and refusals have the tenant's words |
//!
//! Tenants have dice of their own, as shortages have. Where the pool begins with the last release, they are refused until all know them (`releases`).

mod checks;
mod programs;

pub(crate) use checks::{CheckedRequest, TenantChecks};

use super::process::{Opener, ProcessLife, TenantAsker, name};
use super::releases::LAST;
use super::{Cluster, Defect, Event};
use crate::Plan;
use crate::check::{Check, check};
use crate::dice::Dice;
use hanare_protocol::coordinator::{AskKey, Record};
use hanare_protocol::id::{ClientId, User};
use hanare_protocol::tenant::KeyHash;
use hanare_protocol::versions::NEWEST;
use hanare_protocol::wire::control::{Answer, Request, TenantWish, Which};
use hanare_protocol::{Error, Result};
use programs::TenantProgram;
use std::collections::BTreeMap;

/// Names of tenants. The first is a prefix of the second.
const NAMES: [&str; 3] = ["red", "red-2", "blue"];
/// Programs of tenants.
const PROGRAM_COUNT: usize = 6;
/// Quotas that the operator gives: one or a few regions meet them.
const QUOTAS: [Option<u64>; 4] = [None, Some(48 << 10), Some(128 << 10), Some(512 << 10)];
/// Clients of the operator and of programs: numbers that no other client has.
const CLIENTS: u64 = 1 << 49;
/// Virtual time after the faults at which the operator looks for the last time.
const LAST_LOOK_MS: u64 = 40_000;
/// Part of a seed that dice of tenants begin with.
const SALT: u64 = 0x7465_6e61;

/// Something that happens to tenants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TenantEvent {
    /// The operator has a turn.
    Operator,
    /// A program has a turn.
    Program { program: usize },
    /// At the end the operator asks for all tenants.
    Look,
}

/// A request without an answer.
#[derive(Clone, Debug)]
struct Waiting {
    at: ProcessLife,
    what: Request,
    asked_ms: u64,
}

/// The operator and the programs of all tenants.
#[derive(Debug)]
pub(super) struct Tenants {
    dice: Dice,
    /// The operator's request without an answer.
    waits: Option<Waiting>,
    /// Keys that the operator has given out, by tenant: the last one, and the one before.
    files: [Option<KeyHash>; NAMES.len()],
    files_before: [Option<KeyHash>; NAMES.len()],
    keys_ever: u64,
    programs: Vec<TenantProgram>,
    /// The answer to the last look: whether the tenants were listed.
    last_look: Option<Result<()>>,
    /// A defect: keys that a process of a node has had proved, and does not have proved again.
    trusted: BTreeMap<(ProcessLife, usize, [u8; 32]), User>,
}

/// True if tenants are in a run.
pub(super) fn are_played(plan: Plan, defect: Option<Defect>) -> bool {
    defect.map_or(matches!(plan.seed % 10, 0 | 5 | 8 | 9), Defect::is_of_tenants)
}

/// Records as the next coordinator reads them, where a defect has it forget some.
pub(super) fn as_forgotten(defect: Option<Defect>, records: &[Record]) -> Vec<Record> {
    let removed =
        |number: &u32| records.iter().any(|record| matches!(record, Record::TenantRemoved { number: it, .. } if it == number));
    let (gives_again, forgets) = (defect == Some(Defect::GiveNumbersAgain), defect == Some(Defect::ForgetQuotas));
    let forgets_drains = defect == Some(Defect::ForgetDrains);
    let as_read = |record: &Record| match record {
        Record::Tenant { tenant, .. } if gives_again && removed(&tenant.number) => None,
        Record::TenantRemoved { .. } if gives_again => None,
        Record::Tenant { tenant, by } if forgets => {
            let mut tenant = tenant.clone();
            tenant.quota = None;
            Some(Record::Tenant { tenant, by: *by })
        }
        Record::Drains { .. } if forgets_drains => None,
        _ => Some(record.clone()),
    };
    records.iter().filter_map(as_read).collect()
}

impl Cluster {
    /// The dice say whether this pool has tenants.
    pub(super) fn begin_tenants(&mut self) {
        if !are_played(self.plan, self.defect) {
            return;
        }
        let (files, files_before, trusted) = Default::default();
        let programs = (0..PROGRAM_COUNT).map(|number| TenantProgram::new(number % NAMES.len())).collect();
        let dice = Dice::new(self.plan.seed ^ SALT);
        self.tenants = Some(Tenants { dice, waits: None, files, files_before, keys_ever: 0, programs, last_look: None, trusted });
        self.at(1_500, Event::Tenant(TenantEvent::Operator));
        (0..PROGRAM_COUNT).for_each(|program| self.at(2_000, Event::Tenant(TenantEvent::Program { program })));
    }

    pub(super) fn on_tenant_event(&mut self, event: TenantEvent) -> Check {
        match event {
            TenantEvent::Operator => self.on_operator(),
            TenantEvent::Program { program } => self.on_tenant_program(program),
            TenantEvent::Look => self.look_at_tenants(),
        }
    }

    /// Only called where the run has tenants.
    fn tenants_mut(&mut self) -> &mut Tenants {
        self.tenants.as_mut().expect("a run with tenants")
    }

    /// True while the process of a life runs.
    fn runs(&self, (node, life): ProcessLife) -> bool {
        self.hosts[node].process.as_ref().is_some_and(|process| process.life == life)
    }

    /// Nodes that programs reach.
    fn reached_nodes(&self) -> Vec<usize> {
        let runs = |node: &usize| self.hosts[*node].process.is_some() && !self.hosts[*node].is_stopped;
        (0..self.hosts.len()).filter(runs).collect()
    }

    /// The operator has a turn.
    fn on_operator(&mut self) -> Check {
        let (nodes, is_rough) = (self.reached_nodes(), self.is_rough);
        let waits_at = self.tenants_mut().waits.as_ref().map(|waiting| waiting.at);
        let waits = waits_at.is_some_and(|at| self.runs(at));
        let tenants = self.tenants_mut();
        let after = tenants.dice.between(300, 4_000);
        if !is_rough {
            return Ok(());
        }
        let wish = (!waits && !nodes.is_empty()).then(|| (tenants.wish(), tenants.dice.pick(&nodes)));
        self.at(after, Event::Tenant(TenantEvent::Operator));
        wish.map_or(Ok(()), |(wish, node)| self.ask_as_operator(node, wish))
    }

    fn ask_as_operator(&mut self, node: usize, wish: TenantWish) -> Check {
        let (user, client) = (User { uid: 0, gid: 0 }, ClientId(CLIENTS));
        self.ask_for_tenants(node, (user, client), Request::Tenants(wish), TenantAsker::Operator)
    }

    /// Somebody asks a node. It refuses itself what it does not know, and forwards all else.
    fn ask_for_tenants(&mut self, node: usize, (user, client): (User, ClientId), what: Request, by: TenantAsker) -> Check {
        let (now_ms, speaks) = (self.now_ms, self.speaks(node));
        let waiting = |at| Waiting { at, what: what.clone(), asked_ms: now_ms };
        let Some(process) = self.hosts[node].process.as_mut() else { return Ok(()) };
        let at = (node, process.life);
        if let Err(error) = what.check_known("this host's node", speaks) {
            return self.hear_of_tenants(waiting(at), by, Err(error));
        }
        // A defect: the node does not say for whom it asks.
        let is_root = self.course.has(Defect::AskAsRoot) && matches!(&what, Request::Open { which: Which::Gid(_), .. });
        let told = if is_root { User { uid: 0, gid: 0 } } else { user };
        let request = process.member.ask(now_ms, told, client, what.clone());
        process.opens.insert(request, Opener::Tenants(by));
        let key = AskKey { incarnation: process.incarnation, request };
        let waiting = waiting(at);
        match by {
            TenantAsker::Operator => self.tenants_mut().waits = Some(waiting),
            TenantAsker::Program(program) => self.tenants_mut().programs[program].waits = Some(waiting),
        }
        self.checks.on_asked(key, user.uid, &what, now_ms);
        self.count("requests of tenants and their operator");
        self.drain_node(node)
    }

    /// A node answers.
    pub(super) fn on_tenants_answered(&mut self, at: ProcessLife, by: TenantAsker, result: Result<Answer>) -> Check {
        let tenants = self.tenants_mut();
        let waits = match by {
            TenantAsker::Operator => &mut tenants.waits,
            TenantAsker::Program(program) => &mut tenants.programs[program].waits,
        };
        match waits.take_if(|waiting| waiting.at == at) {
            Some(waiting) => self.hear_of_tenants(waiting, by, result),
            None => Err(format!("{} answers {by:?}, who did not ask", name(at.0))),
        }
    }

    fn hear_of_tenants(&mut self, waiting: Waiting, by: TenantAsker, result: Result<Answer>) -> Check {
        if let Err(error) = &result {
            self.check_refusal(error)?;
        }
        match by {
            TenantAsker::Operator => self.hear_as_operator(waiting, result),
            TenantAsker::Program(program) => self.hear_as_program(program, &waiting, result),
        }
    }

    /// A refusal has a reason that there is.
    fn check_refusal(&mut self, error: &Error) -> Check {
        let is_true = match error {
            // A node that is away with bytes may be of the last release.
            Error::TooOld { peer, speaks, needs } => {
                self.count("refused: somebody is of the last release");
                (*speaks, *needs) == (LAST, NEWEST) && (self.was_older() || peer.contains(", away with bytes"))
            }
            Error::NoNode { .. } => {
                self.count("refused: a keeper is away");
                self.keepers.is_some()
            }
            Error::Garbage { .. } => false,
            _ => true,
        };
        check(is_true, || format!("{error:?} is not so"))
    }

    fn hear_as_operator(&mut self, Waiting { at, what, .. }: Waiting, result: Result<Answer>) -> Check {
        let Request::Tenants(wish) = what else { return Err(format!("the operator never asked for {what:?}")) };
        let tenants = self.tenants_mut();
        let place = |name: &str| NAMES.iter().position(|other| *other == name).unwrap_or_default();
        match (wish, result) {
            (TenantWish::List { .. }, result) => {
                let is_list = |answer| check(matches!(answer, Answer::Tenants { .. }), || format!("{answer:?} lists tenants"));
                tenants.last_look = Some(result.clone().map(drop));
                return result.map_or(Ok(()), is_list);
            }
            (TenantWish::Create { name, hash, .. } | TenantWish::Alter { name, hash: Some(hash), .. }, Ok(Answer::Ok)) => {
                let place = place(&name);
                tenants.files_before[place] = tenants.files[place].replace(hash);
                self.count("keys given out");
            }
            (TenantWish::Alter { .. }, Ok(Answer::Ok)) => self.count("quotas of tenants changed"),
            (TenantWish::Remove { .. }, Ok(Answer::Ok)) => self.count("tenants removed"),
            // Some regions are left: the operator says it again.
            (wish @ TenantWish::Remove { .. }, Ok(Answer::Tenants { .. })) if self.runs(at) => {
                return self.ask_as_operator(at.0, wish);
            }
            (wish, Ok(answer)) => return Err(format!("{answer:?} answers {wish:?}")),
            (_, Err(_)) => self.count("wishes about tenants refused"),
        }
        Ok(())
    }

    /// No new work comes. At the end the operator looks at tenants.
    pub(super) fn calm_tenants(&mut self) {
        if self.tenants.is_some() {
            self.at(LAST_LOOK_MS, Event::Tenant(TenantEvent::Look));
        }
    }

    fn look_at_tenants(&mut self) -> Check {
        let nodes = self.reached_nodes();
        let node = nodes.iter().copied().find(|node| self.speaks(*node) > LAST);
        self.tenants_mut().last_look = None;
        let list = TenantWish::List { after: String::new() };
        node.map_or(Ok(()), |node| self.ask_as_operator(node, list))
    }

    /// At the end all know tenants, or somebody is named who does not.
    pub(super) fn judge_tenants(&self) -> Check {
        let Some(tenants) = &self.tenants else { return Ok(()) };
        let mut all = tenants.programs.iter().map(|program| &program.waits).chain([&tenants.waits]).flatten();
        let waits = all.find(|waiting| self.runs(waiting.at));
        check(waits.is_none(), || format!("{waits:?} has no answer"))?;
        let all_know = !self.runs_older();
        match &tenants.last_look {
            Some(Ok(())) => check(all_know, || "tenants are listed, and a node does not know them".to_owned()),
            Some(Err(Error::TooOld { .. })) => check(!all_know, || "all nodes know tenants, and somebody is too old".to_owned()),
            None => check(!all_know, || "nobody looked at tenants".to_owned()),
            Some(Err(error)) => Err(format!("the operator cannot look at tenants: {error:?}")),
        }
    }
}

impl Tenants {
    /// A key that nobody had.
    fn key(&mut self) -> KeyHash {
        self.keys_ever += 1;
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.keys_ever.to_le_bytes());
        KeyHash(key)
    }

    /// The operator's next wish.
    fn wish(&mut self) -> TenantWish {
        let name = self.dice.pick(&NAMES).to_owned();
        match self.dice.below(10) {
            0..=3 => TenantWish::Create { name, hash: self.key(), quota: self.dice.pick(&QUOTAS) },
            4 => TenantWish::Alter { name, hash: Some(self.key()), quota: None },
            5..=6 => TenantWish::Alter { name, hash: None, quota: Some(self.dice.pick(&QUOTAS)) },
            7 => TenantWish::List { after: String::new() },
            _ => TenantWish::Remove { name, with_regions: self.dice.chance(7_000) },
        }
    }
}
