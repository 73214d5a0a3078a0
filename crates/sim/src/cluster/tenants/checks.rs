//! The model of tenants: it sees durable records, requests and answers, and shares no code with the coordinator's own ledger.

use crate::check::{Check, check};
use crate::cluster::QUOTA;
use hanare_protocol::coordinator::TenantRecord;
use hanare_protocol::id::{Gid, is_tenant};
use hanare_protocol::tenant::KeyHash;
use hanare_protocol::wire::control::{Answer, Request, TenantWish};
use std::collections::BTreeMap;

/// A request: of whom, what, and when.
#[derive(Clone, Debug)]
pub(crate) struct CheckedRequest {
    pub uid: u32,
    pub what: Request,
    pub at_ms: u64,
}

/// A tenant that there is, or was.
#[derive(Debug)]
struct SeenTenant {
    name: String,
    /// Keys and quotas, each since when.
    keys: Vec<(u64, KeyHash)>,
    quotas: Vec<(u64, u64)>,
    removed_ms: Option<u64>,
}

/// Values that counted at some moment since then.
fn since<T>(values: &[(u64, T)], since_ms: u64) -> impl Iterator<Item = &T> {
    let ends_ms = values.iter().skip(1).map(|(from_ms, _)| *from_ms).chain([u64::MAX]);
    values.iter().zip(ends_ms).filter(move |(_, end_ms)| *end_ms >= since_ms).map(|((_, value), _)| value)
}

/// All tenants by number.
#[derive(Debug, Default)]
pub(crate) struct TenantChecks {
    all: BTreeMap<u32, SeenTenant>,
}

impl TenantChecks {
    fn living(&self, name: &str) -> Option<(u32, &SeenTenant)> {
        self.all.iter().find(|(_, seen)| seen.name == name && seen.removed_ms.is_none()).map(|(number, seen)| (*number, seen))
    }

    /// The name in the pool of what a user calls so.
    pub fn inside(&self, uid: u32, name: &str) -> String {
        self.all.get(&uid).map_or_else(|| name.to_owned(), |seen| format!("{}/{name}", seen.name))
    }

    /// The name that a user is told; `None` where it is told none.
    pub fn outside<'a>(&self, uid: u32, full: &'a str) -> Option<&'a str> {
        match self.all.get(&uid) {
            Some(seen) => full.strip_prefix(seen.name.as_str())?.strip_prefix('/'),
            None => Some(full).filter(|full| uid == 0 || !full.contains('/')),
        }
    }

    /// True if a request can make that of a tenant.
    pub fn fits(&self, what: &Request, record: &TenantRecord) -> bool {
        let Request::Tenants(wish) = what else { return false };
        let before = self.all.get(&record.number);
        match wish {
            TenantWish::Create { name, hash, quota } => (name, hash, quota) == (&record.name, &record.hash, &record.quota),
            TenantWish::Alter { name, hash, quota } => before.is_some_and(|before| {
                let key = before.keys.last().map(|(_, key)| *key);
                let has_key = hash.or(key) == Some(record.hash);
                let has_quota = quota.is_none_or(|quota| quota == record.quota);
                *name == record.name && before.name == *name && before.removed_ms.is_none() && has_key && has_quota
            }),
            _ => false,
        }
    }

    /// A tenant is there, or has another key or quota. No other living one has its name, and none ever had its number.
    pub fn on_record(&mut self, record: &TenantRecord, is_new: bool, now_ms: u64) -> Check {
        let number = record.number;
        check(is_tenant(number), || format!("{number} is no number of a tenant"))?;
        if is_new {
            let named = self.living(&record.name).map(|(number, _)| number);
            check(named.is_none(), || format!("tenants {named:?} and {number} are named '{}'", record.name))?;
            check(!self.all.contains_key(&number), || format!("number {number} is given again, to '{}'", record.name))?;
            let (keys, quotas, name) = (Vec::new(), Vec::new(), record.name.clone());
            self.all.insert(number, SeenTenant { name, keys, quotas, removed_ms: None });
        }
        let seen = self.all.get_mut(&number).ok_or_else(|| format!("tenant {number} was altered without existing"))?;
        seen.keys.push((now_ms, record.hash));
        seen.quotas.push((now_ms, record.quota.unwrap_or(QUOTA)));
        Ok(())
    }

    /// A tenant is no more.
    pub fn on_removed(&mut self, number: u32, now_ms: u64) -> Check {
        let seen = self.all.get_mut(&number).filter(|seen| seen.removed_ms.is_none());
        let seen = seen.ok_or_else(|| format!("tenant {number} was removed without existing"))?;
        seen.removed_ms = Some(now_ms);
        Ok(())
    }

    /// True if a request removes a user's regions with its tenant.
    pub fn removes_all_of(&self, what: &Request, uid: u32) -> bool {
        let Request::Tenants(TenantWish::Remove { name, with_regions: true }) = what else { return false };
        self.living(name).is_some_and(|(number, _)| number == uid)
    }

    /// True if a request removes that tenant.
    pub fn removes(&self, what: &Request, number: u32) -> bool {
        let Request::Tenants(TenantWish::Remove { name, .. }) = what else { return false };
        self.living(name).is_some_and(|(living, _)| living == number)
    }

    /// A user gets more bytes than it had: a tenant gets them while it is there, within a quota that it had since it asked.
    pub fn on_more(&self, uid: u32, used: u64, asked_ms: u64) -> Check {
        if !is_tenant(uid) {
            return Ok(());
        }
        let seen = self.all.get(&uid).filter(|seen| seen.removed_ms.is_none());
        let seen = seen.ok_or_else(|| format!("{uid} is no tenant, and gets a region"))?;
        let quota = since(&seen.quotas, asked_ms).copied().max().unwrap_or(0);
        check(used <= quota, || format!("tenant '{}' has {used} bytes, over the quota of {quota}", seen.name))
    }

    /// Queues of a tenant may spill, so that it has that in all. Those of a removed one have no regions any more.
    pub fn on_reserved(&self, uid: u32, used: u64, asked_ms: u64) -> Check {
        if self.is_removed(uid) { Ok(()) } else { self.on_more(uid, used, asked_ms) }
    }

    /// True if a tenant had that quota at some moment since then.
    pub fn had_quota(&self, number: u32, quota: u64, since_ms: u64) -> bool {
        self.all.get(&number).is_some_and(|seen| since(&seen.quotas, since_ms).any(|had| *had == quota))
    }

    /// True if a tenant is no more.
    pub fn is_removed(&self, number: u32) -> bool {
        self.all.get(&number).is_some_and(|seen| seen.removed_ms.is_some())
    }

    /// A program is taken for a tenant's: at some moment since it asked, the tenant had that key.
    pub fn on_let_in(&self, name: &str, hash: &KeyHash, number: u32, asked_ms: u64) -> Check {
        let seen = self.all.get(&number).filter(|seen| seen.name == name);
        let was_there = |seen: &&SeenTenant| seen.removed_ms.is_none_or(|removed_ms| removed_ms >= asked_ms);
        let has_key = |seen: &SeenTenant| since(&seen.keys, asked_ms).any(|key| key == hash);
        check(seen.filter(was_there).is_some_and(has_key), || {
            format!("a program is let in as '{name}' ({number}) with no key of it")
        })
    }

    /// The coordinator refuses a key: at some moment since then it was none of that tenant.
    pub fn on_key_refused(&self, name: &str, hash: &KeyHash, asked_ms: u64) -> Check {
        let key = self.living(name).and_then(|(_, seen)| seen.keys.last());
        let is_its = key.is_some_and(|(from_ms, key)| key == hash && *from_ms < asked_ms);
        check(!is_its, || format!("the key of '{name}' is refused"))
    }

    /// The coordinator answers what it decided then. Nobody is shown regions of another tenant; and a tenant that is no more is shown nothing.
    pub fn on_answer(&self, asked: &CheckedRequest, answer: &Answer, owners: &BTreeMap<Gid, u32>, decided_ms: u64) -> Check {
        let uid = asked.uid;
        let shown: Vec<(Gid, &str)> = match answer {
            Answer::Region(view) => vec![(view.gid, view.name.as_str())],
            Answer::Stat(stat) => vec![(stat.gid, stat.name.as_str())],
            Answer::List { regions, .. } => regions.iter().map(|stat| (stat.gid, stat.name.as_str())).collect(),
            Answer::Tenants { tenants, .. } => {
                let is_known = |number: u32, name: &str| self.all.get(&number).is_some_and(|seen| seen.name == name);
                let unknown = tenants.iter().find(|stat| !is_known(stat.number, &stat.name));
                return check(uid == 0 && unknown.is_none(), || format!("{uid} is told of {unknown:?}"));
            }
            Answer::Status(_) => Vec::new(),
            _ => return Ok(()),
        };
        let is_others = |gid: &Gid| {
            let owner = owners.get(gid).copied();
            uid != 0 && (owner != Some(uid)) && (is_tenant(uid) || owner.is_none_or(is_tenant))
        };
        let others = shown.iter().find(|(gid, name)| is_others(gid) || (uid != 0 && name.contains('/')));
        check(others.is_none(), || format!("{uid} is shown {others:?} of {:?}", others.and_then(|(gid, _)| owners.get(gid))))?;
        let removed_ms = self.all.get(&uid).and_then(|seen| seen.removed_ms);
        check(removed_ms.is_none_or(|removed_ms| decided_ms <= removed_ms), || {
            format!("tenant {uid} was removed at {removed_ms:?}, and is told {answer:?}")
        })
    }
}
