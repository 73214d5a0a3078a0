//! Whatever a peer writes into the shared memory of a link, while messages pass, is messages or an end.
#![no_main]

use hanare_fabric::Link;
use hanare_fabric::shm::ShmLink;
use hanare_protocol::wire::head::{Head, Kind};
use libfuzzer_sys::fuzz_target;
use sink::Body;

/// Where to write, and what; and how many honest messages go before.
type Scribble<'a> = (u32, u8, &'a [u8]);

fuzz_target!(|scribbles: Vec<Scribble>| {
    let (mut one, parts) = ShmLink::create("opener").expect("a link");
    let memory = parts.memory.try_clone().expect("a descriptor");
    let mut other = ShmLink::open(parts, "maker").expect("a link");
    let len = rustix::fs::fstat(&memory).expect("a file").st_size as u64;
    let mut body = Body::default();
    for (at, count, noise) in scribbles {
        for seq in 0..u64::from(count % 8) {
            // SAFETY: there are no windows.
            let _ = unsafe { other.send(&Head::new(Kind::Ping, seq), &[]) };
            // SAFETY: as above.
            let _ = unsafe { one.send(&Head::new(Kind::Pong, seq), &[]) };
        }
        // Near the start of a ring as often as anywhere: there is what matters.
        let at = if at % 2 == 0 { u64::from(at / 2) % 512 } else { u64::from(at / 2) % len };
        let at = if count & 64 == 0 { at } else { (at + 4096) % len };
        let _ = rustix::io::pwrite(&memory, noise, at.min(len - noise.len().min(len as usize) as u64));
        one.doze();
        if one.progress(&mut body).is_err() {
            assert_eq!(one.unsent_len(), 0);
            return;
        }
    }
});
