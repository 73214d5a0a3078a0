//! `hanare tenant` as an operator and a service see it; and tenants at the next keeper.

use crate::keepers::Keepers;
use crate::pool::{Ended, Nodes, command, run};
use hanare::tenant_file::TenantFile;
use hanare::{CreateOptions, Error, Pool};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[test]
fn an_operator_makes_a_tenant_and_its_services_use_it() {
    let nodes = Nodes::start(1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("team.key");
    let path = file.to_str().unwrap();
    let say = |words: &[&str]| -> Ended { run(command(words).env("HANARE_NODE", &nodes.nodes[0].socket)) };
    let as_team =
        |words: &[&str]| -> Ended { run(command(words).env("HANARE_NODE", &nodes.nodes[0].socket).env("HANARE_TENANT", &file)) };

    assert!(say(&["tenant", "ls"]).done().contains("hanare tenant create NAME"));
    let told = say(&["tenant", "create", "team", "--quota", "1M", "--key-file", path]).done();
    assert!(told.contains("HANARE_TENANT") && told.contains(path) && !told.contains("hanare-tenant team"), "{told}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    say(&["tenant", "create", "other", "--key-file", path]).refused(&["team.key", "there already"]);
    say(&["tenant", "create", "team"]).refused(&["'team'", "hanare tenant key"]);
    say(&["tenant", "create", "a/b"]).refused(&["letters"]);
    let printed = say(&["tenant", "create", "second"]).done();
    assert!(printed.starts_with("hanare-tenant second ") && printed.trim_end().len() == "hanare-tenant second ".len() + 64);

    as_team(&["region", "create", "cache", "512K"]).done();
    say(&["region", "create", "cache", "64K"]).done();
    as_team(&["region", "create", "more", "1M"]).refused(&["quota of 1 MiB", "hanare tenant set"]);
    let own = as_team(&["region", "ls"]).done();
    assert!(own.contains("cache") && own.contains("512") && !own.contains("team/") && own.lines().count() == 2, "{own}");
    let all = say(&["region", "ls"]).done();
    let of_team = all.lines().find(|line| line.starts_with("team/cache")).unwrap();
    assert!(of_team.split_whitespace().any(|word| word == "team") && all.lines().count() == 3, "{all}");
    assert!(say(&["region", "stat", "team/cache"]).done().contains("tenant team"));
    let listed = say(&["tenant", "ls"]).done();
    let row = listed.lines().find(|line| line.starts_with("team")).unwrap();
    assert!(row.contains("512") && row.contains("1 MiB") && row.trim_end().ends_with('1'), "{listed}");
    let json: serde_json::Value = say(&["tenant", "ls", "--json"]).json();
    assert_eq!((&json["tenants"][1]["name"], &json["tenants"][1]["used"]), (&"team".into(), &(512 << 10).into()), "{json}");
    as_team(&["node", "drain", "0"]).refused(&["root and the user that runs this host's node"]);
    // The operator's words are an operator's, whatever its environment names.
    assert!(as_team(&["tenant", "ls"]).done().contains("team"));

    assert!(say(&["tenant", "set", "team", "quota=2M"]).done().contains("2 MiB"));
    as_team(&["region", "create", "more", "1M"]).done();
    say(&["tenant", "set", "none", "quota=2M"]).refused(&["hanare tenant ls"]);
    assert!(say(&["tenant", "key", "team"]).done().starts_with("hanare-tenant team "));
    as_team(&["region", "ls"]).refused(&["'team'", "hanare tenant key team"]);
    say(&["tenant", "key", "team", "--key-file", path]).done();
    assert_eq!(as_team(&["region", "ls"]).done().lines().count(), 3);

    say(&["tenant", "remove", "team"]).refused(&["2 regions", "--with-regions"]);
    say(&["tenant", "remove", "team", "--with-regions"]).done();
    assert!(!say(&["region", "ls"]).done().contains("team/"));
    as_team(&["region", "ls"]).refused(&["'team'"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
}

#[test]
fn a_launch_with_a_pool_of_its_own_has_no_tenant() {
    let told = run(command(&["run", "--nodes", "1", "--", "true"]).env("HANARE_TENANT", "/no/such"));
    told.refused(&["HANARE_TENANT", "/no/such", "pool of its own"]);
}

#[test]
fn tenants_go_on_at_the_next_keeper() {
    let mut keepers = Keepers::start();
    let leader = keepers.leader();
    let other = (leader + 1) % 3;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("team.key");
    let socket = keepers.nodes[other].socket.clone();
    let say = |words: &[&str]| -> Ended { run(command(words).env("HANARE_NODE", &socket)) };
    say(&["tenant", "create", "team", "--quota", "1M", "--key-file", file.to_str().unwrap()]).done();
    let attach = |file: &Path| Pool::attach_as(&socket, None, Some(TenantFile(file.to_owned())));
    let program = attach(&file).unwrap();
    program.create("a", 4096, &CreateOptions::default()).unwrap();
    keepers.kill(leader);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while program.create_or_attach("b", 4096, &CreateOptions::default()).is_err() {
        assert!(std::time::Instant::now() < until, "another keeper goes on");
    }
    let names: Vec<String> = attach(&file).unwrap().list().unwrap().into_iter().map(|region| region.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(matches!(program.create("c", 1 << 20, &CreateOptions::default()), Err(Error::QuotaExceeded { .. })));
    assert!(say(&["tenant", "ls"]).done().contains("team"));
}
