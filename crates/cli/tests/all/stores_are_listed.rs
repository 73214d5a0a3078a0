//! Stores as namespaces: each has its own memory, and names with dots group them.

use crate::pool;

use hanare::Pool;
use hanare_dict::{Evict, Key, Store, StoreOptions, kind};
use pool::Nodes;

#[test]
fn a_store_is_a_namespace_with_its_own_memory() {
    let nodes = Nodes::start(2);
    let pool = Pool::attach_to(&nodes.nodes[0].socket, None).unwrap();
    let open =
        |name: &str, bytes, evict| Store::open(&pool, name, &StoreOptions { bytes, evict, ..StoreOptions::default() }).unwrap();
    let (kv, sessions) = (open("team.kv", 1 << 20, Evict::Lru), open("team.sessions", 64 << 10, Evict::Ttl));
    open("other", 64 << 10, Evict::Lfu);
    // One that is full takes nothing of another.
    sessions.put(&Key::text("a"), kind::PLAIN, b"1", None).unwrap();
    for number in 0..500 {
        kv.put(&Key::number(number), kind::PLAIN, &[7; 5000], None).unwrap();
    }
    assert_eq!(sessions.get(&Key::text("a")).unwrap().unwrap().1, b"1");
    let listed = nodes.hanare(&["store", "ls", "team.", "--json"]).json();
    let rows = listed.as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["team.kv", "team.sessions"]);
    let (used, keys) = (rows[0]["used"].as_u64().unwrap(), rows[0]["keys"].as_u64().unwrap());
    assert!(used > 800 << 10 && used <= 1 << 20 && (100..210).contains(&keys), "{listed}");
    assert_eq!((rows[0]["bytes"].as_u64(), rows[0]["evict"].as_str()), (Some(1 << 20), Some("lru")));
    assert_eq!((rows[1]["keys"].as_u64(), rows[1]["mode"].as_u64()), (Some(1), Some(0o600)));
    let all = nodes.hanare(&["store", "ls"]).done();
    assert!(all.contains("team.kv") && all.contains("1 MiB") && all.contains("other") && all.contains("lfu"), "{all}");
}
