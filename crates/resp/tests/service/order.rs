//! Replies of one connection come in the order of its commands, whatever the pieces.

use super::client::{TestService, command};

/// Commands of some kinds, and their replies. Each depends on the one before.
fn steps(count: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut sent, mut wanted) = (Vec::new(), Vec::new());
    let mut step = |words: &[&[u8]], reply: &[u8]| {
        sent.extend(command(words));
        wanted.extend_from_slice(reply);
    };
    step(&[b"DEL", b"n"], b":0\r\n");
    for number in 0..count {
        let text = (2 * number).to_string();
        step(&[b"SET", b"a", text.as_bytes()], b"+OK\r\n");
        step(&[b"GET", b"a"], format!("${}\r\n{text}\r\n", text.len()).as_bytes());
        step(&[b"INCR", b"a"], format!(":{}\r\n", 2 * number + 1).as_bytes());
        step(&[b"APPEND", b"n", b"x"], format!(":{}\r\n", number + 1).as_bytes());
    }
    (sent, wanted)
}

#[test]
fn ten_thousand_commands_in_one_go() {
    let service = TestService::start(10);
    let (sent, wanted) = steps(2500);
    let mut client = service.client();
    // A client that sends all before it reads must not fill both ways: its replies are short.
    let mut other = client.0.try_clone().unwrap();
    let sender = std::thread::spawn(move || std::io::Write::write_all(&mut other, &sent).unwrap());
    client.expect(&wanted);
    sender.join().unwrap();
}

#[test]
fn commands_that_come_byte_by_byte() {
    let service = TestService::start(10);
    let (sent, wanted) = steps(10);
    let mut client = service.client();
    sent.chunks(1).for_each(|byte| client.send(byte));
    client.expect(&wanted);
    // Two at a time, one of which does not end its command, are apart.
    let mut other = service.client();
    other.send(b"*2\r\n$4\r\nECHO\r\n$5\r\nab");
    client.ask(b"PING\r\n", b"+PONG\r\n");
    other.ask(b"cde\r\n", b"$5\r\nabcde\r\n");
}

#[test]
fn a_long_list_is_sent_in_parts() {
    let service = TestService::start(10);
    let mut client = service.client();
    let value = vec![b'v'; 1000];
    let names: Vec<String> = (0..2000).map(|number| format!("key:{number}")).collect();
    for name in &names {
        client.ask(&command(&[b"SET", name.as_bytes(), &value]), b"+OK\r\n");
    }
    let mut words: Vec<&[u8]> = vec![b"MGET"];
    words.extend(names.iter().map(|name| name.as_bytes()));
    words.push(b"none");
    let all = [b"$1000\r\n", &value[..], b"\r\n"].concat().repeat(2000);
    let wanted = [b"+PONG\r\n*2001\r\n", &all[..], b"$-1\r\n+PONG\r\n"].concat();
    client.send(&[b"PING\r\n", &command(&words)[..], b"PING\r\n"].concat());
    client.expect(&wanted);
}

#[test]
fn many_keys_are_set_in_their_order() {
    let service = TestService::start(10);
    let mut client = service.client();
    let pairs: Vec<(String, String)> = (0..1000).map(|number| (format!("key:{}", number % 900), number.to_string())).collect();
    let mut words: Vec<&[u8]> = vec![b"MSET"];
    words.extend(pairs.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]));
    client.ask(&command(&[b"SET", b"key:0", b"old", b"EX", b"1000"]), b"+OK\r\n");
    client.ask(&command(&words), b"+OK\r\n");
    for (key, value) in [("key:0", "900"), ("key:99", "999"), ("key:100", "100"), ("key:899", "899")] {
        client.ask(&command(&[b"GET", key.as_bytes()]), format!("${}\r\n{value}\r\n", value.len()).as_bytes());
    }
    client.ask(&command(&[b"TTL", b"key:0"]), b":-1\r\n");
    client.ask(&command(&[b"MSET", b"a", b"1", b"b"]), b"-ERR wrong number of arguments for 'mset' command\r\n");
    client.ask(&command(&[b"EXISTS", b"a"]), b":0\r\n");
    // One value is longer than the store can have it: those before it are there.
    let long = vec![b'v'; 40 << 20];
    client
        .ask(&command(&[b"MSET", b"a", b"1", b"b", &long]), b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
    client.ask(&command(&[b"MGET", b"a", b"b"]), b"*2\r\n$1\r\n1\r\n$-1\r\n");
}

#[test]
fn a_long_value_goes_and_comes() {
    let service = TestService::start(10);
    let mut client = service.client();
    let value: Vec<u8> = (0..3_000_000u32).map(|at| (at ^ at >> 8) as u8).collect();
    client.ask(&command(&[b"SET", b"long", &value]), b"+OK\r\n");
    client.ask(&command(&[b"GET", b"long"]), &[b"$3000000\r\n", &value[..], b"\r\n"].concat());
    client.ask(&command(&[b"STRLEN", b"long"]), b":3000000\r\n");
}

#[test]
fn a_client_that_ends_its_half_still_gets_its_replies() {
    let service = TestService::start(10);
    let mut client = service.client();
    client.send(b"SET half 1\r\nGET half\r\n");
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    client.expect(b"+OK\r\n$1\r\n1\r\n");
    assert!(client.is_ended());
}
