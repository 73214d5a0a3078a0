//! Tenants: decides who is one, and which names stand in the pool for those that a user says.
//!
//! Requests come in, and answers go out, in the words of their user. [`Coordinator::inside`] alone puts a tenant's name before a region's.
//! [`Coordinator::outside`] takes it off. Between both all names are the pool's. Other users cannot say a name with a `/`. Numbers of
//! regions of another space are unknown to them (`permission`).

use super::asks::AskKey;
use super::records::{Effect, Record, RegionRecord, TenantRecord};
use super::{Coordinator, Step};
use crate::error::{Error, Result};
use crate::id::{Asker, Gid};
use crate::limits::{LIST_PAGE_COUNT_MAX, TENANT_COUNT_MAX, TENANT_REMOVED_COUNT_MAX};
use crate::name::check_name;
use crate::tenant::{KeyHash, TENANT_NUMBERS, check_full, check_tenant, full_name, is_tenant, parts, space, user};
use crate::wire::control::{Answer, Request, TenantStat, TenantWish};
use std::ops::Bound;

impl Coordinator {
    /// A request with the pool's names in place of its user's.
    ///
    /// **Errors**: [`Error::BadName`] for names that the user cannot say; [`Error::TenantGone`].
    pub(super) fn inside(&self, user: &Asker, what: &Request) -> Result<Request> {
        let mut what = what.clone();
        let uid = user.user.uid;
        let Some(number) = space(uid) else {
            return check_said(uid == 0, &mut what).map(|()| what);
        };
        let of_tenant = |name: &mut String| {
            *name = full_name(&self.tenant(number)?.name, name)?;
            Ok(())
        };
        match &mut what {
            Request::List { after } => *after = format!("{}/{after}", self.tenant(number)?.name),
            Request::Alter { name, changes } => {
                of_tenant(name)?;
                changes.name.as_mut().map_or(Ok(()), of_tenant)?;
            }
            Request::Open { .. } | Request::Status => drop(self.tenant(number)?),
            _ => {}
        }
        name_of(&mut what).map_or(Ok(()), of_tenant)?;
        Ok(what)
    }

    /// A reply with the names of its user in place of the pool's.
    pub(super) fn outside(&self, user: &Asker, result: Result<Answer>) -> Result<Answer> {
        let Some(tenant) = space(user.user.uid).and_then(|number| self.ledger.tenants.get(&number)) else { return result };
        let prefix = format!("{}/", tenant.name);
        let cut = |name: &mut String| {
            if let Some(rest) = name.strip_prefix(&prefix) {
                *name = rest.to_owned();
            }
        };
        let mut answer = result.map_err(|error| error.without_prefix(&prefix))?;
        match &mut answer {
            Answer::Region(view) => cut(&mut view.name),
            Answer::Stat(stat) => cut(&mut stat.name),
            Answer::List { regions, .. } => regions.iter_mut().for_each(|stat| cut(&mut stat.name)),
            Answer::Status(status) => {
                status.nodes.iter_mut().flat_map(|node| &mut node.stays).for_each(|stays| cut(&mut stays.name));
            }
            _ => {}
        }
        Ok(answer)
    }

    fn tenant(&self, number: u32) -> Result<&TenantRecord> {
        self.ledger.tenants.get(&number).ok_or(Error::TenantGone { number })
    }

    /// Bytes that a user may have; `None` for no limit.
    pub(super) fn quota_of(&self, uid: u32) -> Option<u64> {
        self.ledger.tenants.get(&uid).and_then(|tenant| tenant.quota).or(self.settings.quota)
    }

    /// Regions that a user may know of by their number.
    pub(super) fn region_count(&self, user: &Asker) -> u64 {
        let of = |uid: u32| self.ledger.owned.get(&uid).copied().unwrap_or(0);
        match space(user.user.uid) {
            Some(number) => of(number),
            None if user.user.uid == 0 => self.ledger.regions.len() as u64,
            None => {
                self.ledger.tenants.keys().map(|number| of(*number)).fold(self.ledger.regions.len() as u64, u64::saturating_sub)
            }
        }
    }

    /// Looks at the key of a program. A tenant that is not there is refused like a wrong key.
    pub(super) fn prove_tenant(&self, tenant: &str, hash: &KeyHash) -> Result<Answer> {
        check_tenant(tenant)?;
        let known = self.ledger.tenant_named(tenant);
        let expected = known.map_or(KeyHash([0; 32]), |tenant| tenant.hash);
        let is_of_one_key = expected.is_of_one_key(hash);
        match known {
            Some(tenant) if is_of_one_key => Ok(Answer::Tenant(user(tenant.number))),
            _ => Err(Error::TenantRefused { tenant: tenant.to_owned() }),
        }
    }

    /// Lists or changes tenants, for an operator.
    pub(super) fn tenants(&mut self, now_ms: u64, key: AskKey, wish: &TenantWish) -> Step {
        let done = match wish {
            TenantWish::List { after } => Ok(self.list_tenants(after)),
            TenantWish::Create { name, hash, quota } => self.create_tenant(key, name, *hash, *quota),
            TenantWish::Alter { name, hash, quota } => self.alter_tenant(key, name, *hash, *quota),
            TenantWish::Remove { name, with_regions } => return self.remove_tenant(now_ms, key, name, *with_regions),
        };
        Step::Done(done)
    }

    fn list_tenants(&self, after: &str) -> Answer {
        let all = self.ledger.tenant_numbers.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        let mut tenants: Vec<TenantStat> =
            all.take(LIST_PAGE_COUNT_MAX.saturating_add(1)).map(|(_, number)| self.stat_tenant(*number)).collect();
        let more = tenants.len() > LIST_PAGE_COUNT_MAX;
        tenants.truncate(LIST_PAGE_COUNT_MAX);
        Answer::Tenants { tenants, more }
    }

    fn stat_tenant(&self, number: u32) -> TenantStat {
        let tenant = &self.ledger.tenants[&number];
        TenantStat {
            name: tenant.name.clone(),
            number,
            quota: tenant.quota,
            used: self.used_or_asked(number),
            regions: self.owned_or_asked(number),
        }
    }

    fn create_tenant(&mut self, key: AskKey, name: &str, hash: KeyHash, quota: Option<u64>) -> Result<Answer> {
        check_tenant(name)?;
        if self.ledger.tenant_named(name).is_some() {
            let reason = "the pool has a tenant of that name; `hanare tenant key` gives it a new key".to_owned();
            return Err(refused(name, reason));
        }
        if self.ledger.tenants.len() >= TENANT_COUNT_MAX {
            return Err(Error::LimitReached { what: "tenants of a pool".to_owned(), limit: TENANT_COUNT_MAX as u64 });
        }
        let number = self.ledger.tenant_next();
        if !is_tenant(number) {
            let limit = TENANT_NUMBERS.count() as u64;
            return Err(Error::LimitReached { what: "tenants that a pool has ever had".to_owned(), limit });
        }
        self.check_journal()?;
        let tenant = TenantRecord { number, name: name.to_owned(), hash, quota };
        self.record(Record::Tenant { tenant, by: Some(key) });
        Ok(Answer::Ok)
    }

    fn alter_tenant(&mut self, key: AskKey, name: &str, hash: Option<KeyHash>, quota: Option<Option<u64>>) -> Result<Answer> {
        let mut tenant = self.ledger.tenant_named(name).ok_or_else(|| unknown(name))?.clone();
        self.check_journal()?;
        tenant.hash = hash.unwrap_or(tenant.hash);
        tenant.quota = quota.unwrap_or(tenant.quota);
        self.record(Record::Tenant { tenant, by: Some(key) });
        Ok(Answer::Ok)
    }

    /// Removes a tenant, and its regions if that is wished. One request removes a bounded number of them: their tenant is answered as long
    /// as some are left.
    fn remove_tenant(&mut self, now_ms: u64, key: AskKey, name: &str, with_regions: bool) -> Step {
        let Some(number) = self.ledger.tenant_named(name).map(|tenant| tenant.number) else {
            return Step::Done(Err(unknown(name)));
        };
        let count = self.owned_or_asked(number);
        if count > 0 && !with_regions {
            let reason = format!("it has {count} regions; remove them, or say --with-regions, which loses their bytes");
            return Step::Done(Err(refused(name, reason)));
        }
        // Names of a tenant stand side by side. The prefix ends in a '/', and '0' is the character behind that.
        let (first, end) = (format!("{name}/"), format!("{name}0"));
        let names = self.ledger.names.range(first..end).take(TENANT_REMOVED_COUNT_MAX);
        let gids: Vec<Gid> = names.map(|(_, gid)| *gid).collect();
        let is_busy = |gid: &Gid| self.growths.contains_key(gid) || self.copied.is_changing(*gid);
        if self.growths.values().any(|growth| growth.owner.uid == number) || gids.iter().any(is_busy) {
            return Step::Park;
        }
        // Requests of the tenant that wait for this one go on.
        self.changed = true;
        for gid in gids {
            let region: RegionRecord = self.ledger.regions[&gid].clone();
            self.remove_region(now_ms, key, &region);
        }
        if self.ledger.owned.contains_key(&number) {
            return Step::Done(Ok(Answer::Tenants { tenants: vec![self.stat_tenant(number)], more: false }));
        }
        self.record(Record::TenantRemoved { number, by: Some(key) });
        Step::Done(Ok(Answer::Ok))
    }

    /// True for a request that makes memory of a tenant while the tenant is being removed: the removal, which waits for memory under way, goes
    /// first.
    pub(super) fn waits_for_removal(&self, user: &Asker, what: &Request) -> bool {
        let makes = matches!(what, Request::Create { .. } | Request::Resize { .. });
        let number = space(user.user.uid).filter(|_| makes);
        let Some(tenant) = number.and_then(|number| self.ledger.tenants.get(&number)) else { return false };
        // Nodes forward the word of operators alone.
        let removes = |what: &Request| match what {
            Request::Tenants(TenantWish::Remove { name, with_regions: true }) => *name == tenant.name,
            _ => false,
        };
        self.asks.open_tasks().any(|task| removes(&task.what))
    }

    /// True for the removal of a tenant of which a part is done. After the last part another tenant may have the name.
    pub(super) fn goes_on(&self, what: &Request, effect: Effect) -> bool {
        effect == Effect::Changed && matches!(what, Request::Tenants(TenantWish::Remove { .. }))
    }
}

/// The name of the region that a request is about.
fn name_of(what: &mut Request) -> Option<&mut String> {
    use crate::wire::control::Which;
    match what {
        Request::Create { name, .. }
        | Request::Open { which: Which::Name(name), .. }
        | Request::Stat { name }
        | Request::Resize { name, .. }
        | Request::Remove { name } => Some(name),
        _ => None,
    }
}

/// Refuses names that a user of the common space cannot say. Root may name regions of tenants, and give no such name.
fn check_said(is_root: bool, what: &mut Request) -> Result<()> {
    match what {
        Request::Create { name, .. } => check_name(name),
        Request::Alter { name, changes } => {
            if is_root { check_full(name) } else { check_name(name) }?;
            match (changes.name.as_ref(), parts(name)) {
                (None, _) => Ok(()),
                (Some(to), None) => check_name(to),
                (Some(to), Some((tenant, _))) if parts(to).is_some_and(|(other, _)| other == tenant) => check_full(to),
                (Some(to), Some(_)) => {
                    Err(Error::BadName { name: to.clone(), reason: "a tenant's region stays the tenant's".to_owned() })
                }
            }
        }
        what => match name_of(what) {
            Some(name) if is_root => check_full(name),
            Some(name) => check_name(name),
            None => Ok(()),
        },
    }
}

fn refused(name: &str, reason: String) -> Error {
    Error::BadSetting { key: "the tenant".to_owned(), value: name.to_owned(), reason }
}

fn unknown(name: &str) -> Error {
    refused(name, "the pool has none of that name; `hanare tenant ls` lists those that there are".to_owned())
}
