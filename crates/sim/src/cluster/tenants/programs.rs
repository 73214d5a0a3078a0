//! Programs of tenants: each attaches with a key, works on regions of its tenant, and tries to reach those of others.

use super::{CLIENTS, NAMES, TenantEvent, Waiting};
use crate::check::{Check, check};
use crate::cluster::process::{ProcessLife, TenantAsker};
use crate::cluster::{Cluster, Defect, Event, Terms};
use crate::dice::Dice;
use hanare_protocol::attributes::Attributes;
use hanare_protocol::id::{ClientId, Gid, User};
use hanare_protocol::placement::Placement;
use hanare_protocol::tenant::{KeyHash, is_tenant};
use hanare_protocol::wire::control::{Answer, Changes, Existing, RegionView, Request, Which};
use hanare_protocol::{Error, Result};

/// Names of regions: all tenants and users have the same.
const REGIONS: [&str; 4] = ["a", "b", "c", "d"];
/// The Unix user of all programs.
const UID: u32 = 300;

/// A program.
#[derive(Clone, Debug)]
pub(super) struct TenantProgram {
    tenant: usize,
    /// The node that it is attached to, and the tenant as a user.
    attached: Option<(ProcessLife, User)>,
    pub waits: Option<Waiting>,
    /// The region that it opened last.
    view: Option<RegionView>,
}

impl TenantProgram {
    pub fn new(tenant: usize) -> TenantProgram {
        TenantProgram { tenant, attached: None, waits: None, view: None }
    }

    fn detach(&mut self) {
        (self.attached, self.view) = (None, None);
    }
}

fn request(dice: &mut Dice, copies: &[u8], gids: u64) -> Request {
    let name = dice.pick(&REGIONS).to_owned();
    let len = dice.pick(&[4 << 10, 20 << 10, 60 << 10]);
    match dice.below(100) {
        0..=29 => Request::Create {
            name,
            len,
            placement: dice.pick(&[Placement::Local, Placement::Interleave(4096)]),
            copies: dice.pick(copies),
            mode: dice.pick(&[0o600, 0o666]),
            attributes: Attributes::default(),
            existing: dice.pick(&[Existing::Refuse, Existing::Attach, Existing::AttachOrRenew]),
        },
        30..=44 => Request::Open { which: Which::Name(name), rights: None },
        45..=64 => Request::Open { which: Which::Gid(Gid(dice.between(1, gids + 1))), rights: None },
        65..=69 => Request::Stat { name },
        70..=74 => Request::List { after: String::new() },
        75 => Request::Status,
        76..=81 => Request::Resize { name, len: len + (8 << 10) },
        82..=84 => Request::Alter { name, changes: Changes { copies: Some(dice.pick(copies)), ..Changes::default() } },
        85..=88 => {
            let changes = Changes { name: Some(dice.pick(&REGIONS).to_owned()), ..Changes::default() };
            Request::Alter { name, changes }
        }
        89..=90 => Request::Reserve { used: 0, wanted: dice.pick(&[0, 0, 16 << 10]) },
        _ => Request::Remove { name },
    }
}

impl Cluster {
    /// A program has a turn.
    pub(super) fn on_tenant_program(&mut self, program: usize) -> Check {
        if !self.is_rough {
            return Ok(());
        }
        let after = self.tenants_mut().dice.pick(&[30, 300, 1_000, 3_000]);
        self.at(after, Event::Tenant(TenantEvent::Program { program }));
        let this = self.tenants_mut().programs[program].clone();
        if this.waits.as_ref().is_some_and(|waiting| self.runs(waiting.at)) {
            return Ok(());
        }
        let client = ClientId(CLIENTS + 1 + program as u64);
        let Some((at, user)) = this.attached.filter(|(at, _)| self.runs(*at)) else {
            self.tenants_mut().programs[program].detach();
            return self.attach_tenant(program, this.tenant, client);
        };
        if self.hosts[at.0].is_stopped {
            return Ok(());
        }
        self.access_as_tenant(user, this.view.as_ref())?;
        let copies: &[u8] = if self.terms == Terms::Harsh { &[1] } else { &[1, 1, 2] };
        let gids = self.checks.gid_last();
        let dice = &mut self.tenants_mut().dice;
        let what = request(dice, copies, gids);
        if dice.chance(200) {
            self.tenants_mut().programs[program].detach();
            return Ok(());
        }
        self.ask_for_tenants(at.0, (user, client), what, TenantAsker::Program(program))
    }

    /// A program brings a node the key that it has: that of its tenant today, or one of before.
    fn attach_tenant(&mut self, program: usize, tenant: usize, client: ClientId) -> Check {
        let nodes = self.reached_nodes();
        let tenants = self.tenants_mut();
        let is_old = tenants.dice.chance(1_000);
        let key = if is_old { tenants.files_before[tenant] } else { tenants.files[tenant] };
        let (Some(hash), false) = (key, nodes.is_empty()) else { return Ok(()) };
        let node = tenants.dice.pick(&nodes);
        let life = self.hosts[node].process.as_ref().map_or(0, |process| process.life);
        if let Some(user) = self.tenants_mut().trusted.get(&((node, life), tenant, hash.0)).copied() {
            let asked_ms = self.now_ms;
            return self.let_in(program, (node, life), (hash, asked_ms), user);
        }
        let what = Request::ProveTenant { tenant: NAMES[tenant].to_owned(), hash };
        self.ask_for_tenants(node, (User { uid: UID, gid: UID }, client), what, TenantAsker::Program(program))
    }

    /// A node takes a program for a tenant's.
    fn let_in(&mut self, program: usize, at: ProcessLife, (hash, asked_ms): (KeyHash, u64), user: User) -> Check {
        let tenant = self.tenants_mut().programs[program].tenant;
        check(is_tenant(user.uid), || format!("{user:?} is no tenant"))?;
        self.checks.tenants.on_let_in(NAMES[tenant], &hash, user.uid, asked_ms)?;
        self.count("programs let in");
        let trusts = self.has(Defect::ProveOnce);
        let tenants = self.tenants_mut();
        tenants.programs[program].attached = Some((at, user));
        if trusts {
            tenants.trusted.insert((at, tenant, hash.0), user);
        }
        Ok(())
    }

    /// A program uses the region that it opened last. Its grants open its tenant's bytes, or nothing.
    fn access_as_tenant(&mut self, user: User, view: Option<&RegionView>) -> Check {
        let Some(view) = view else { return Ok(()) };
        for (extent, grant) in view.layout.extents().zip(&view.grants) {
            let holders = self.hosts.iter().filter(|host| !host.is_stopped).filter_map(|host| host.process.as_ref());
            let mut holders = holders.filter(|process| self.is_node(process, extent.node));
            let Some(holder) = holders.next() else { continue };
            let Some(gid) = holder.lender.opens(extent.slot, *grant) else { continue };
            self.checks.on_access(*grant, view.gid, gid, holder.lender.epoch)?;
            let owner = self.checks.owner(gid);
            check(owner == Some(user.uid), || format!("{user:?} reaches bytes of {owner:?}"))?;
            self.count("accesses of tenants");
        }
        Ok(())
    }

    /// A program has an answer.
    pub(super) fn hear_as_program(&mut self, program: usize, waiting: &Waiting, result: Result<Answer>) -> Check {
        let Waiting { at, what, asked_ms } = waiting;
        let user = self.tenants_mut().programs[program].attached.map(|(_, user)| user);
        match (what, result) {
            (Request::ProveTenant { hash, .. }, Ok(Answer::Tenant(user))) => {
                return self.let_in(program, *at, (*hash, *asked_ms), user);
            }
            (_, Ok(Answer::Region(view))) => {
                let is_said = match what {
                    Request::Create { name, .. } | Request::Resize { name, .. } => view.name == *name,
                    Request::Open { which: Which::Name(name), .. } => view.name == *name,
                    Request::Open { which: Which::Gid(gid), .. } => view.gid == *gid && !view.name.contains('/'),
                    _ => false,
                };
                let is_said = is_said || self.checks.was_renamed(view.gid);
                check(is_said && user.is_none_or(|user| view.owner.uid == user.uid), || format!("{view:?} answers {what:?}"))?;
                self.tenants_mut().programs[program].view = Some(view);
                self.count("regions of tenants opened");
            }
            (_, Ok(_)) => self.count("other answers to tenants"),
            (_, Err(error)) => self.check_words(program, user, (what, *asked_ms), &error)?,
        }
        Ok(())
    }

    /// A program is refused, in words of its tenant.
    fn check_words(&mut self, program: usize, user: Option<User>, (what, asked_ms): (&Request, u64), error: &Error) -> Check {
        let text = error.to_string();
        let leaks = NAMES.iter().any(|name| text.contains(&format!("{name}/")));
        check(!leaks, || format!("{user:?} is told a name of the pool: {text}"))?;
        match error {
            Error::TenantGone { number } => {
                let is_own = user.is_none_or(|user| user.uid == *number);
                check(is_own && self.checks.tenants.is_removed(*number), || format!("{user:?} is told: {text}"))?;
                self.count("programs whose tenant is gone");
                self.tenants_mut().programs[program].detach();
            }
            Error::QuotaExceeded { uid, limit, .. } => {
                let is_own = user.is_none_or(|user| user.uid == *uid);
                let is_its = self.checks.tenants.had_quota(*uid, *limit, asked_ms);
                check(is_own && is_its, || format!("{user:?} is told: {text}"))?;
                self.count("refused: quota of a tenant");
            }
            Error::TenantRefused { .. } => self.count("programs with a wrong key"),
            Error::UnknownRegion { .. } if matches!(what, Request::Open { which: Which::Gid(_), .. }) => {
                self.count("refused: a region of others, or none");
            }
            _ => self.count("requests of tenants refused"),
        }
        Ok(())
    }
}
