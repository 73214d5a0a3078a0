//! Tenants: two services that run as one user have names, quotas and keys of their own, and nobody else learns of what they have.

use crate::apart::{Apart, until};
use crate::intruder::Intruder;
use crate::support::TestPool;
use hanare::tenant_file::{Tenant, TenantFile, hash};
use hanare::{Consistency, CreateOptions, Error, Overflow, Pool, QueueForm, Rights, TenantWish, Trust, Unit};
use hanare_protocol::id::{Gid, User};
use hanare_protocol::tenant::{KeyHash, TENANT_NUMBERS, TenantKey, is_tenant};
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::control::{Answer, Request, Which};
use hanare_protocol::wire::greeting::{Hello, NONCE_LEN, Role};
use std::time::{Duration, Instant};

const LEN: u64 = 1 << 20;
const OTHER: u32 = 65_534;

/// Files of tenants, as an operator hands them out.
struct Keys {
    folder: tempfile::TempDir,
}

impl Keys {
    fn new() -> Keys {
        Keys { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str) -> TenantFile {
        TenantFile(self.folder.path().join(name))
    }

    fn write(&self, tenant: &Tenant) -> TenantFile {
        use std::os::unix::fs::PermissionsExt;
        let file = self.file(&tenant.name);
        std::fs::write(&file.0, tenant.text()).unwrap();
        std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    /// Makes a tenant, and its file.
    fn make(&self, operator: &Pool, name: &str, quota: Option<u64>) -> TenantFile {
        let tenant = Tenant::draw(name).unwrap();
        operator.change_tenant(&TenantWish::Create { name: name.to_owned(), hash: hash(&tenant.key), quota }).unwrap();
        self.write(&tenant)
    }
}

fn attach(socket: &str, file: &TenantFile) -> Result<Pool, Error> {
    Pool::attach_as(socket, None, Some(file.clone()))
}

/// Attaches as another user, which is a thread's own and ends with it.
fn attach_as_user(socket: &str, uid: u32) -> Option<Result<Pool, Error>> {
    if !rustix::process::geteuid().is_root() {
        hanare_testkit::unable("only root may attach as another user");
        return None;
    }
    let socket = socket.to_owned();
    let attach = move || {
        let (user, group) = (rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(uid));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        Pool::attach_to(&socket, None)
    };
    Some(std::thread::spawn(attach).join().unwrap())
}

fn open_to_all() -> CreateOptions {
    CreateOptions { mode: 0o666, ..CreateOptions::default() }
}

fn names(pool: &Pool) -> Vec<String> {
    pool.list().unwrap().into_iter().map(|region| region.name).collect()
}

fn blocks() -> QueueForm {
    QueueForm { unit: Unit::Blocks { len: 16 }, depth: 8, ports: 2, overflow: Overflow::Refuse }
}

#[test]
fn two_tenants_of_one_user_use_the_same_names_and_do_not_meet() {
    let (pool, keys) = (TestPool::start(2, 64 << 20), Keys::new());
    let operator = pool.client(0);
    let files = ["one", "two"].map(|name| keys.make(&operator, name, None));
    let [one, two] = [0, 1].map(|at| attach(pool.nodes[at].socket(), &files[at]).unwrap());
    assert!(is_tenant(one.user().uid) && one.user() != two.user());

    for (tenant, byte) in [(&one, 1), (&two, 2)] {
        let region = tenant.create("cache", LEN, &open_to_all()).unwrap();
        assert_eq!((region.name(), region.owner().uid), ("cache", tenant.user().uid));
        region.put(0, &[byte; 64]).unwrap();
        assert!(tenant.trust().is_alone_in(&tenant.create("own", 4096, &CreateOptions::default()).unwrap()));
    }
    let (mut first, mut second) = ([0; 64], [0; 64]);
    attach(pool.nodes[1].socket(), &files[0]).unwrap().open("cache").unwrap().get(0, &mut first).unwrap();
    two.open("cache").unwrap().get(0, &mut second).unwrap();
    assert_eq!((first, second), ([1; 64], [2; 64]));

    // Both hold the lock of that name at once, and each group has the number of parties that it was given.
    let held = one.lock("turn").unwrap();
    let other = two.try_lock("turn").unwrap().expect("another tenant's lock is another lock");
    let again = attach(pool.nodes[1].socket(), &files[0]).unwrap();
    assert!(again.try_lock("turn").unwrap().is_none(), "the same tenant's is the same");
    assert!(operator.try_lock("turn").unwrap().is_some());
    other.unlock().unwrap();
    held.unlock().unwrap();
    for tenant in [&one, &two] {
        tenant.group("team", 1).unwrap().barrier().unwrap();
    }

    let queues = [&one, &two].map(|tenant| tenant.create_queue("jobs", &blocks(), &CreateOptions::default()).unwrap());
    queues[0].writer().unwrap().send(&[7; 16]).unwrap();
    assert!(queues[1].reader().unwrap().try_see().unwrap().is_none());
    let mut unit = Vec::new();
    queues[0].reader().unwrap().receive(&mut unit, Some(Duration::from_secs(20))).unwrap();
    assert_eq!(unit, [7; 16]);

    for tenant in [&one, &two] {
        assert_eq!(names(tenant), ["cache", "jobs", "own"]);
        assert_eq!(tenant.status().unwrap().regions, 3);
    }
    let told = operator.tenants().unwrap();
    assert_eq!(told.iter().map(|tenant| (tenant.name.as_str(), tenant.regions)).collect::<Vec<_>>(), [("one", 3), ("two", 3)]);
}

#[test]
fn a_mapping_of_a_tenant_on_two_hosts_is_as_any_other() {
    let (pool, keys) = (TestPool::start(2, 32 << 20), Keys::new());
    let file = keys.make(&pool.client(0), "one", None);
    let programs = [0, 1].map(|at| attach(pool.nodes[at].socket(), &file).unwrap());
    let region = programs[0].create("shared", LEN, &CreateOptions::default()).unwrap();
    let near = region.map(Consistency::Coherent).unwrap();
    let far = programs[1].open("shared").unwrap().map(Consistency::Coherent).unwrap();
    near.write(0, b"stored").unwrap();
    let mut back = [0; 6];
    far.read(0, &mut back).unwrap();
    assert_eq!(&back, b"stored");
}

#[test]
fn nobody_else_is_told_what_a_tenant_has() {
    let (pool, keys) = (TestPool::start(1, 64 << 20), Keys::new());
    let operator = pool.client(0);
    let [one, two] = ["one", "two"].map(|name| attach(pool.nodes[0].socket(), &keys.make(&operator, name, None)).unwrap());
    let region = one.create("secret", LEN, &open_to_all()).unwrap();
    let mapping = region.map(Consistency::Coherent).unwrap();
    mapping.write(0, b"one").unwrap();
    let _lock = one.lock("turn").unwrap();
    one.create("small", 64, &open_to_all()).unwrap().put(0, &[1; 64]).unwrap();
    let Some(user) = attach_as_user(pool.nodes[0].socket(), OTHER) else { return };
    for stranger in [&user.unwrap(), &two] {
        assert!(names(stranger).is_empty() && stranger.status().unwrap().regions == 0);
        assert_eq!(stranger.own_status().unwrap().regions, 0);
        for name in ["secret", "no such"] {
            assert_eq!(stranger.open(name).unwrap_err(), Error::UnknownRegion { name: name.to_owned() });
        }
        // The name in the pool, and one that is not there: the same words.
        let words =
            ["one/secret", "one/no such"].map(|name| stranger.open(name).unwrap_err().to_string().replace("secret", "no such"));
        assert!(words[0] == words[1] && words[0].contains("'/' is not allowed"), "{words:?}");
        let none = Gid(region.gid().0 + 1000);
        for gid in [region.gid(), none] {
            let refused = stranger.open_gid(gid, None).unwrap_err();
            assert_eq!(refused, Error::UnknownRegion { name: gid.to_string() }, "whatever its mode");
        }
        let seen = stranger.look(&stranger.status().unwrap().nodes[0], &[], 0).unwrap();
        assert!(seen.pages.is_empty() && seen.locks.is_empty() && seen.lock_count == 0, "{seen:?}");
        assert!(seen.programs.iter().all(|program| program.user == stranger.user().uid));
        assert!(seen.counts.commands.iter().all(|command| command.count == 0), "{:?}", seen.counts);
        assert!(stranger.tenants().unwrap_err().to_string().contains("root and the user that runs this host's node"));
        let removed = stranger.change_tenant(&TenantWish::Remove { name: "one".to_owned(), with_regions: true });
        assert!(matches!(removed, Err(Error::BadSetting { .. })), "{removed:?}");
    }
    let told = names(&operator);
    assert!(told.contains(&"one/secret".to_owned()), "{told:?}");
    let seen = one.look(&one.status().unwrap().nodes[0], &[&region], 0).unwrap();
    assert_eq!((seen.pages.len(), seen.locks[0].name.as_str()), (1, "turn"), "its own is told in its words");
}

#[test]
fn a_full_quota_is_the_tenant_s_own_and_says_so() {
    let (pool, keys) = (TestPool::start(1, 64 << 20), Keys::new());
    let operator = pool.client(0);
    let [one, two] = [("one", Some(2 * LEN)), ("two", None)]
        .map(|(name, quota)| attach(pool.nodes[0].socket(), &keys.make(&operator, name, quota)).unwrap());
    one.create("a", LEN, &CreateOptions::default()).unwrap();
    let refused = one.create("b", 2 * LEN, &CreateOptions::default()).unwrap_err();
    assert!(matches!(refused, Error::QuotaExceeded { used: LEN, limit, .. } if limit == 2 * LEN), "{refused}");
    assert!(refused.to_string().contains("hanare tenant set"), "{refused}");
    two.create("b", 8 * LEN, &CreateOptions::default()).unwrap();
    operator.change_tenant(&TenantWish::Alter { name: "one".to_owned(), hash: None, quota: Some(None) }).unwrap();
    one.create("b", 2 * LEN, &CreateOptions::default()).unwrap();
}

#[test]
fn what_a_tenant_s_queues_spill_counts_although_users_have_no_quota() {
    let (pool, keys) = (TestPool::start(1, 64 << 20), Keys::new());
    let operator = pool.client(0);
    let one = attach(pool.nodes[0].socket(), &keys.make(&operator, "one", Some(8 << 20)).clone()).unwrap();
    let form = QueueForm { unit: Unit::Blocks { len: 4096 }, overflow: Overflow::Spill, ..blocks() };
    let mut writer = one.create_queue("jobs", &form, &CreateOptions::default()).unwrap().writer().unwrap();
    let refused = (0..4096).find_map(|_| writer.send(&[1; 4096]).err()).expect("16 MiB do not fit");
    assert!(matches!(refused, Error::QuotaExceeded { limit, .. } if limit == 8 << 20), "{refused}");
    assert!(operator.tenants().unwrap()[0].used > 7 << 20);
}

#[test]
fn a_wrong_key_is_refused_after_a_second_and_like_a_tenant_that_is_not_there() {
    let (pool, keys) = (TestPool::start(2, 16 << 20), Keys::new());
    keys.make(&pool.client(0), "one", None);
    for name in ["one", "none"] {
        let file = keys.write(&Tenant::draw(name).unwrap());
        let (begun, refused) = (Instant::now(), attach(pool.nodes[1].socket(), &file).map(drop).unwrap_err());
        assert_eq!(refused, Error::TenantRefused { tenant: name.to_owned() });
        assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
        assert!(refused.to_string().contains(&format!("hanare tenant key {name}")), "{refused}");
    }
    let missing = attach(pool.nodes[1].socket(), &keys.file("missing")).map(drop).unwrap_err();
    assert!(missing.to_string().contains("HANARE_TENANT"), "{missing}");
}

#[test]
fn who_has_not_proved_a_key_asks_for_nothing_and_proves_none_by_its_hash() {
    let (pool, keys) = (TestPool::start(1, 16 << 20), Keys::new());
    let file = keys.make(&pool.client(0), "one", None);
    let tenant = file.read().unwrap();
    let refused = |answer: &Result<Answer, Error>| matches!(answer, Err(Error::Garbage { .. }));
    let list = Request::List { after: String::new() };
    let proof = Request::ProveTenant { tenant: "one".to_owned(), hash: hash(&tenant.key) };
    let attach_by = |key: TenantKey| Request::AttachAs { versions: Versions::BUILD, job: None, tenant: "one".to_owned(), key };
    let mut intruder = Intruder::connect(pool.nodes[0].socket());
    for request in [list.clone(), proof.clone(), Request::Detach, Request::Status] {
        let answer = intruder.ask(&request);
        assert!(refused(&answer), "{request:?}: {answer:?}");
    }
    // Requests behind a key wait until it is looked at.
    intruder.send(&attach_by(TenantKey([0; 32])));
    intruder.send(&list);
    let answer = intruder.answer().0;
    assert_eq!(answer, Err(Error::TenantRefused { tenant: "one".to_owned() }));
    let answer = intruder.answer().0;
    assert!(refused(&answer), "{answer:?}");
    // The hash is no key.
    let answer = intruder.ask(&attach_by(TenantKey(hash(&tenant.key).0)));
    assert_eq!(answer, Err(Error::TenantRefused { tenant: "one".to_owned() }));
    let Ok(Answer::Attached(attached)) = intruder.ask(&attach_by(tenant.key.clone())) else { panic!("the key is right") };
    assert!(is_tenant(attached.user.uid));
    for request in [attach_by(tenant.key.clone()), Request::Attach { versions: Versions::BUILD, job: None }, proof] {
        let answer = intruder.ask(&request);
        assert!(refused(&answer), "{request:?}: {answer:?}");
    }
    let answer = intruder.ask(&Request::Tenants(TenantWish::List { after: String::new() }));
    assert!(matches!(answer, Err(Error::BadSetting { .. })), "{answer:?}");
}

#[test]
fn nobody_says_that_it_is_a_tenant_to_another_node() {
    let (pool, keys) = (TestPool::start(2, 16 << 20), Keys::new());
    let file = keys.make(&pool.client(0), "one", None);
    let one = attach(pool.nodes[0].socket(), &file).unwrap();
    let mut user = Intruder::attach(pool.nodes[0].socket());
    let Ok(Answer::Attached(attached)) =
        Intruder::connect(pool.nodes[0].socket()).ask(&Request::Attach { versions: Versions::BUILD, job: None })
    else {
        panic!("a user attaches")
    };
    let hellos = |client, user: User| {
        let hello = Hello { client, user, ..Hello::new(Role::Data, 0, [1; NONCE_LEN]) };
        [hello.encode(), Hello::new(Role::Data, 0, [2; NONCE_LEN]).encode()].concat()
    };
    for client in [attached.client.0, one.client().0] {
        let answer = user.ask(&Request::Prove { hellos: hellos(client, one.user()) });
        assert!(matches!(answer, Err(Error::Garbage { .. })), "{answer:?}");
    }
    let opened = user.ask(&Request::Open { which: Which::Name("one/a".to_owned()), rights: Some(Rights::Read) });
    assert!(matches!(opened, Err(Error::BadName { .. })), "{opened:?}");
}

#[test]
fn a_user_with_a_tenant_s_number_is_refused() {
    let pool = TestPool::start(1, 16 << 20);
    for number in [*TENANT_NUMBERS.start(), *TENANT_NUMBERS.end()] {
        let Some(refused) = attach_as_user(pool.nodes[0].socket(), number) else { return };
        let refused = refused.map(drop).unwrap_err();
        assert!(matches!(refused, Error::NoNode { .. }), "{refused}");
    }
    attach_as_user(pool.nodes[0].socket(), TENANT_NUMBERS.start() - 1).unwrap().unwrap();
}

#[test]
fn a_new_key_lets_programs_in_that_attach_later_and_those_that_are_there_go_on() {
    let (mut pool, keys) = (Apart::start_kept(2), Keys::new());
    let operator = pool.client(0);
    let file = keys.make(&operator, "one", None);
    let before = file.read().unwrap();
    let program = attach(pool.socket(1), &file).unwrap();
    program.create("a", LEN, &crate::support::on(0)).unwrap();
    let fresh = Tenant::draw("one").unwrap();
    operator.change_tenant(&TenantWish::Alter { name: "one".to_owned(), hash: Some(hash(&fresh.key)), quota: None }).unwrap();
    program.create("b", LEN, &crate::support::on(0)).unwrap();
    assert!(matches!(attach(pool.socket(1), &file), Err(Error::TenantRefused { .. })), "the key of before");
    keys.write(&fresh);
    assert_eq!(names(&attach(pool.socket(0), &file).unwrap()), ["a", "b"]);
    // Its node ends and is back: the program reads the file again.
    pool.kill(1);
    pool.start_again(1);
    until("the program is attached again", || program.status().is_ok());
    assert_eq!(names(&program), ["a", "b"]);
    keys.write(&before);
    pool.kill(1);
    pool.start_again(1);
    let mut last = None;
    until("the program is refused", || {
        last = program.status().err();
        matches!(last, Some(Error::TenantRefused { .. }))
    });
}

#[test]
fn a_tenant_that_is_removed_has_nothing_and_its_programs_are_told() {
    let (pool, keys) = (TestPool::start(2, 32 << 20), Keys::new());
    let operator = pool.client(0);
    let file = keys.make(&operator, "one", None);
    let one = attach(pool.nodes[1].socket(), &file).unwrap();
    let region = one.create("a", LEN, &CreateOptions::default()).unwrap();
    let removed = |with_regions| operator.change_tenant(&TenantWish::Remove { name: "one".to_owned(), with_regions });
    let refused = removed(false).unwrap_err().to_string();
    assert!(refused.contains("1 regions") && refused.contains("--with-regions"), "{refused}");
    removed(true).unwrap();
    assert!(operator.tenants().unwrap().is_empty() && names(&operator).is_empty());
    for refused in [one.create("b", LEN, &CreateOptions::default()).map(drop), one.list().map(drop), one.open("a").map(drop)] {
        assert_eq!(refused, Err(Error::TenantGone { number: one.user().uid }));
    }
    until("its bytes are out of reach", || region.get(0, &mut [0; 8]).is_err());
    assert!(matches!(attach(pool.nodes[0].socket(), &file), Err(Error::TenantRefused { .. })));
    // The next of that name is another: its file, its number, and what it has.
    let next = attach(pool.nodes[0].socket(), &keys.make(&operator, "one", None)).unwrap();
    assert!(next.user() != one.user() && names(&next).is_empty());
    next.lock("turn").unwrap().unlock().unwrap();
}

#[test]
fn a_coordinator_that_comes_again_knows_its_tenants() {
    let (mut pool, keys) = (Apart::start_kept(2), Keys::new());
    let operator = pool.client(1);
    let file = keys.make(&operator, "one", Some(8 * LEN));
    let program = attach(pool.socket(1), &file).unwrap();
    let region = program.create("a", LEN, &crate::support::on(1)).unwrap();
    region.put(0, &[7; 8]).unwrap();
    pool.kill(0);
    pool.start_again(0);
    until("naming is back", || program.list().is_ok());
    assert_eq!(names(&program), ["a"]);
    let mut bytes = [0; 8];
    attach(pool.socket(0), &file).unwrap().open("a").unwrap().get(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 8]);
    let stat = operator.tenants().unwrap().swap_remove(0);
    assert_eq!((stat.name.as_str(), stat.quota, stat.regions), ("one", Some(8 * LEN), 1));
    assert!(matches!(program.create("b", 8 * LEN, &CreateOptions::default()), Err(Error::QuotaExceeded { .. })));
}

#[test]
fn regions_are_trusted_by_tenant_as_they_are_by_user() {
    let (pool, keys) = (TestPool::start(1, 16 << 20), Keys::new());
    let one = attach(pool.nodes[0].socket(), &keys.make(&pool.client(0), "one", None)).unwrap();
    let region = one.create_or_attach("a", 4096, &CreateOptions::default()).unwrap();
    assert!(Trust::own(&one).check_region(&region).is_ok());
    assert!(Trust::own(&pool.client(0)).check_region(&region).is_err());
    assert!(!hash(&TenantKey([1; 32])).is_of_one_key(&KeyHash([1; 32])));
}
