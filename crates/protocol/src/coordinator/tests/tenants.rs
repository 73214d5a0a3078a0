//! Tenants: their names, their quotas, and what others see of them.

use super::*;
use crate::id::Asker;
use crate::tenant::{KeyHash, TENANT_NUMBERS, user};
use crate::wire::control::{Changes, TenantStat, TenantWish};

const ROOT: User = User { uid: 0, gid: 0 };
const KEY: KeyHash = KeyHash([7; 32]);

impl Pool {
    fn tenants(&mut self, wish: TenantWish) -> Result<Answer> {
        self.call(0, ROOT, Request::Tenants(wish))
    }

    fn make(&mut self, name: &str, quota: Option<u64>) -> User {
        let hash = KeyHash([name.len() as u8; 32]);
        self.tenants(TenantWish::Create { name: name.to_owned(), hash, quota }).unwrap();
        self.prove(name, hash).unwrap()
    }

    fn prove(&mut self, name: &str, hash: KeyHash) -> Result<User> {
        match self.call(1, OTHER, Request::ProveTenant { tenant: name.to_owned(), hash })? {
            Answer::Tenant(user) => Ok(user),
            other => panic!("{other:?}"),
        }
    }

    fn listed(&mut self) -> Vec<TenantStat> {
        match self.tenants(TenantWish::List { after: String::new() }) {
            Ok(Answer::Tenants { tenants, more: false }) => tenants,
            other => panic!("{other:?}"),
        }
    }

    fn names(&mut self, user: User) -> Vec<String> {
        match self.call(0, user, Request::List { after: String::new() }) {
            Ok(Answer::List { regions, more: false }) => regions.into_iter().map(|region| region.name).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn make_region(&mut self, user: User, name: &str, len: u64) -> Result<RegionView> {
        view(self.call(0, user, create(name, len, Placement::Local, false)))
    }

    fn look_up(&mut self, user: User, which: Which) -> Result<RegionView> {
        view(self.call(1, user, Request::Open { which, rights: None }))
    }

    fn restart_from_journal(&mut self) {
        let records = self.journal.clone();
        self.coordinator = Coordinator::restore(self.settings.clone(), records, self.now_ms);
        let again = Coordinator::restore(self.settings.clone(), self.coordinator.snapshot(), self.now_ms);
        assert_eq!(again.ledger.tenants, self.coordinator.ledger.tenants);
        assert_eq!(again.ledger.tenants_ever, self.coordinator.ledger.tenants_ever);
    }
}

fn name(name: &str) -> Which {
    Which::Name(name.to_owned())
}

#[test]
fn two_tenants_and_a_user_have_a_region_of_one_name_each() {
    let mut pool = Pool::new(2);
    let (one, two) = (pool.make("one", None), pool.make("second", None));
    let gids: Vec<Gid> = [one, two, OWNER].map(|user| pool.make_region(user, "a", 4096).unwrap().gid).to_vec();
    for (at, user) in [one, two, OWNER].into_iter().enumerate() {
        let opened = pool.look_up(user, name("a")).unwrap();
        assert_eq!((opened.gid, opened.name.as_str(), opened.owner), (gids[at], "a", user));
        assert_eq!(pool.names(user), ["a"]);
        for gid in gids.iter().filter(|gid| **gid != gids[at]) {
            let unknown = Error::UnknownRegion { name: gid.to_string() };
            assert_eq!(pool.look_up(user, Which::Gid(*gid)), Err(unknown), "as a number that no region has");
        }
        let taken = pool.make_region(user, "a", 4096);
        assert_eq!(taken, Err(Error::NameTaken { name: "a".to_owned(), len: 4096 }));
        assert_eq!(pool.look_up(user, name("none")), Err(Error::UnknownRegion { name: "none".to_owned() }));
    }
    assert_eq!(pool.names(ROOT), ["a", "one/a", "second/a"]);
    assert_eq!(pool.look_up(ROOT, name("one/a")).unwrap().gid, gids[0]);
}

#[test]
fn nobody_else_says_a_tenant_s_name_or_learns_that_it_is_there() {
    let mut pool = Pool::new(2);
    let (one, two) = (pool.make("one", None), pool.make("second", None));
    let open = Changes { mode: Some(0o666), ..Changes::default() };
    let gid = pool.make_region(one, "a", 4096).unwrap().gid;
    pool.call(0, one, Request::Alter { name: "a".to_owned(), changes: open }).unwrap();
    for user in [two, OWNER] {
        for asked in [
            |name: String| Request::Open { which: Which::Name(name), rights: None },
            |name| Request::Stat { name },
            |name| Request::Remove { name },
            |name| Request::Resize { name, len: 8192 },
            |name| Request::Alter { name, changes: Changes::default() },
        ] {
            let (there, not_there) = (pool.call(0, user, asked("one/a".into())), pool.call(0, user, asked("one/b".into())));
            let (Err(Error::BadName { reason: one, .. }), Err(Error::BadName { reason: other, .. })) = (&there, &not_there)
            else {
                panic!("{there:?} {not_there:?}")
            };
            assert_eq!(one, other);
        }
        assert!(matches!(pool.make_region(user, "one/b", 4096), Err(Error::BadName { .. })));
        let renamed = Changes { name: Some("one/c".to_owned()), ..Changes::default() };
        pool.make_region(user, "mine", 4096).unwrap();
        let renamed = pool.call(0, user, Request::Alter { name: "mine".to_owned(), changes: renamed });
        assert!(matches!(renamed, Err(Error::BadName { .. })), "{renamed:?}");
        assert_eq!(pool.look_up(user, Which::Gid(gid)), Err(Error::UnknownRegion { name: gid.to_string() }), "mode 0666 or not");
        assert_eq!(pool.names(user), ["mine"]);
        let Ok(Answer::Status(status)) = pool.call(0, user, Request::Status) else { panic!() };
        assert_eq!(status.regions, 1);
    }
    let given = Changes { owner: Some(one), ..Changes::default() };
    let given = pool.call(0, ROOT, Request::Alter { name: "mine".to_owned(), changes: given });
    assert!(matches!(given, Err(Error::BadUse { .. })), "{given:?}");
    let moved = Changes { name: Some("a".to_owned()), ..Changes::default() };
    let moved = pool.call(0, ROOT, Request::Alter { name: "one/a".to_owned(), changes: moved });
    assert!(matches!(moved, Err(Error::BadName { .. })), "{moved:?}");
    let Ok(Answer::Status(status)) = pool.call(0, ROOT, Request::Status) else { panic!() };
    assert_eq!(status.regions, 3);
}

#[test]
fn a_tenant_s_region_can_be_renamed_and_removed_in_its_own_words() {
    let mut pool = Pool::new(2);
    let one = pool.make("one", None);
    pool.make_region(one, "a", 4096).unwrap();
    let renamed = Changes { name: Some("b".to_owned()), ..Changes::default() };
    pool.call(0, one, Request::Alter { name: "a".to_owned(), changes: renamed }).unwrap();
    let Ok(Answer::Stat(stat)) = pool.call(0, one, Request::Stat { name: "b".to_owned() }) else { panic!() };
    assert_eq!((stat.name.as_str(), stat.owner), ("b", one.uid));
    let short = pool.call(0, one, Request::Resize { name: "b".to_owned(), len: 1 });
    assert!(matches!(&short, Err(Error::BadLength { name, .. }) if name == "b"), "{short:?}");
    pool.call(0, one, Request::Remove { name: "b".to_owned() }).unwrap();
    assert!(pool.names(ROOT).is_empty());
}

#[test]
fn a_listing_of_several_pages_goes_on_in_the_tenant_s_words() {
    let mut pool = Pool::new(2);
    let (one, two) = (pool.make("one", None), pool.make("one-more", None));
    for at in 0..5 {
        pool.make_region(one, &format!("r{at}"), 4096).unwrap();
        pool.make_region(two, &format!("s{at}"), 4096).unwrap();
        pool.make_region(OWNER, &format!("z{at}"), 4096).unwrap();
    }
    let Ok(Answer::List { regions, more }) = pool.call(0, one, Request::List { after: "r2".to_owned() }) else { panic!() };
    let names: Vec<&str> = regions.iter().map(|region| region.name.as_str()).collect();
    assert_eq!((names, more), (vec!["r3", "r4"], false));
    assert_eq!(pool.names(two).len(), 5);
}

#[test]
fn a_quota_is_a_tenant_s_own_and_spilled_units_count() {
    let mut pool = Pool::with(2, Settings { quota: Some(100_000), ..Settings::new("n0") });
    let (one, two) = (pool.make("one", Some(10_000)), pool.make("second", None));
    pool.make_region(one, "a", 8192).unwrap();
    let refused = pool.make_region(one, "b", 4096);
    assert_eq!(refused, Err(Error::QuotaExceeded { uid: one.uid, asked: 4096, used: 8192, limit: 10_000 }));
    assert!(refused.unwrap_err().to_string().contains("hanare tenant set"));
    let reserved = pool.call(1, one, Request::Reserve { used: 0, wanted: 5_000 });
    assert_eq!(reserved, Ok(Answer::Reserved { granted: 1_808, elsewhere: 8192 }));
    pool.make_region(two, "a", 50_000).unwrap();
    assert!(matches!(pool.make_region(two, "b", 60_000), Err(Error::QuotaExceeded { limit: 100_000, .. })));
    pool.tenants(TenantWish::Alter { name: "one".to_owned(), hash: None, quota: Some(Some(20_000)) }).unwrap();
    pool.make_region(one, "b", 4096).unwrap();
    let stats = pool.listed();
    let told: Vec<_> = stats.iter().map(|stat| (stat.name.as_str(), stat.quota, stat.used, stat.regions)).collect();
    assert_eq!(told, [("one", Some(20_000), 8192 + 4096 + 1_808, 2), ("second", None, 50_000, 1)]);
}

#[test]
fn a_wrong_key_and_an_unknown_tenant_are_refused_in_the_same_words() {
    let mut pool = Pool::new(2);
    let one = pool.make("one", None);
    assert_eq!(one, user(*TENANT_NUMBERS.start()));
    for (tenant, hash) in [("one", KEY), ("none", KEY), ("none", KeyHash([0; 32])), ("one", KeyHash([0; 32]))] {
        assert_eq!(pool.prove(tenant, hash), Err(Error::TenantRefused { tenant: tenant.to_owned() }));
    }
    pool.tenants(TenantWish::Alter { name: "one".to_owned(), hash: Some(KEY), quota: None }).unwrap();
    assert_eq!(pool.prove("one", KEY), Ok(one));
    assert!(pool.prove("one", KeyHash([3; 32])).is_err(), "the key of before");
    pool.make_region(one, "a", 4096).unwrap();
}

#[test]
fn a_tenant_that_is_removed_asks_for_nothing_and_its_number_is_given_to_no_other() {
    let mut pool = Pool::new(2);
    let (one, two) = (pool.make("one", None), pool.make("second", None));
    pool.make_region(one, "a", 4096).unwrap();
    pool.make_region(one, "b", 4096).unwrap();
    pool.make_region(two, "a", 4096).unwrap();
    let gone = |with_regions| TenantWish::Remove { name: "one".to_owned(), with_regions };
    let refused = pool.tenants(gone(false)).unwrap_err().to_string();
    assert!(refused.contains("2 regions") && refused.contains("--with-regions"), "{refused}");
    assert_eq!(pool.tenants(gone(true)), Ok(Answer::Ok));
    assert_eq!((pool.names(ROOT), pool.names(two)), (vec!["second/a".to_owned()], vec!["a".to_owned()]));
    for asked in [create("a", 4096, Placement::Local, false), Request::List { after: String::new() }, Request::Status] {
        assert_eq!(pool.call(0, one, asked), Err(Error::TenantGone { number: one.uid }));
    }
    assert_eq!(pool.look_up(one, Which::Gid(Gid(1))), Err(Error::TenantGone { number: one.uid }));
    assert!(pool.tenants(gone(true)).unwrap_err().to_string().contains("tenant ls"));
    let again = pool.make("one", None);
    assert!(again.uid > two.uid, "{again:?}");
    pool.restart_from_journal();
    let stats = pool.coordinator.ledger.tenants.values().map(|tenant| tenant.name.as_str()).collect::<Vec<_>>();
    assert_eq!(stats, ["second", "one"]);
    assert_eq!(pool.coordinator.ledger.tenant_next(), again.uid + 1);
}

#[test]
fn a_tenant_that_makes_regions_all_the_time_is_removed() {
    let mut pool = Pool::new(2);
    let one = pool.make("one", None);
    // The node takes its time.
    let there = Placement::Node(NodeId(1));
    pool.nodes[1].makes = None;
    let first = pool.ask(0, one, create("a", 4096, there, false));
    let gone = Request::Tenants(TenantWish::Remove { name: "one".to_owned(), with_regions: true });
    let removal = pool.ask(0, ROOT, gone);
    let second = pool.ask(0, one, create("b", 4096, there, false));
    assert_eq!(pool.coordinator.growths.len(), 1, "the second waits for the removal, which waits for the first");
    assert_eq!([first, removal].map(|request| pool.answer(0, request)), [None, None]);
    pool.nodes[1].makes = Some(Ok(()));
    pool.cut(1);
    pool.connect(1);
    pool.pass(limits::REPEAT_MS * 2, &[]);
    assert!(pool.answer(0, first).is_some());
    assert_eq!(pool.answer(0, removal), Some(Ok(Answer::Ok)));
    assert_eq!(pool.answer(0, second), Some(Err(Error::TenantGone { number: one.uid })));
    assert_eq!(pool.coordinator.used(one.uid), 0);
}

#[test]
fn a_tenant_that_is_made_twice_is_one_and_bad_names_are_none() {
    let mut pool = Pool::new(2);
    pool.make("one", None);
    let create = |name: &str| TenantWish::Create { name: name.to_owned(), hash: KEY, quota: None };
    assert!(pool.tenants(create("one")).unwrap_err().to_string().contains("has a tenant of that name"));
    for bad in ["", "a/b", ".", "a b", "-a"] {
        assert!(pool.tenants(create(bad)).is_err(), "{bad}");
    }
    assert_eq!(pool.listed().len(), 1);
}

#[test]
fn a_repeated_removal_of_a_tenant_goes_on_where_it_was() {
    let mut pool = Pool::new(2);
    let one = pool.make("one", None);
    pool.make_region(one, "a", 4096).unwrap();
    let what = Request::Tenants(TenantWish::Remove { name: "one".to_owned(), with_regions: true });
    assert!(pool.coordinator.goes_on(&what, Effect::Changed));
    assert_eq!(pool.call(0, ROOT, what.clone()), Ok(Answer::Ok));
    // The whole removal is told apart from a part: another tenant may have the name when it comes again.
    let is_whole = |effect: &Effect| *effect == Effect::TenantRemoved;
    assert!(pool.coordinator.ledger.effects.values().any(is_whole));
    assert!(!pool.coordinator.goes_on(&what, Effect::TenantRemoved));
    assert_eq!(pool.coordinator.used(one.uid), 0);
}

#[test]
fn names_of_the_pool_are_put_on_and_taken_off_for_tenants_alone() {
    let mut pool = Pool::new(2);
    let one = pool.make("one", None);
    let asker = Asker::from(one);
    let open = |name: &str| Request::Open { which: Which::Name(name.to_owned()), rights: None };
    assert_eq!(pool.coordinator.inside(&asker, &open("a")), Ok(open("one/a")));
    assert_eq!(pool.coordinator.inside(&OWNER.into(), &open("a")), Ok(open("a")));
    let lost = |region: &str| Err(Error::RegionLost { region: region.to_owned(), node: NodeId(1) });
    assert_eq!(pool.coordinator.outside(&asker, lost("one/a")), lost("a"));
    assert_eq!(pool.coordinator.outside(&ROOT.into(), lost("one/a")), lost("one/a"));
}
