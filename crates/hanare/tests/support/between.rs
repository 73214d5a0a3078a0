//! Somebody on the wire: passes records on, keeps what was heard, and meddles with one record when told to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What is done to one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// A bit of it is flipped.
    Flip,
    /// It ends in the middle.
    Cut,
    /// It comes twice.
    Repeat,
    /// The next one comes first.
    Reorder,
    /// It goes back to its sender as well.
    Reflect,
}

#[derive(Default)]
struct State {
    /// What is to be done, and to an answer or a request.
    attack: Option<(Attack, bool)>,
    heard: Vec<u8>,
}

pub struct Between(Arc<Mutex<State>>);

/// Bytes of the greeting each way: two hellos, the connector's proof, and the acceptor's with its length.
const ASKED_LEN: usize = 64 + 48;
const ANSWERED_LEN: usize = 64 + 2 + 48;

impl Between {
    /// Stands at `listener` in front of `to`.
    pub fn start(listener: TcpListener, to: SocketAddr) -> Between {
        let state = Arc::new(Mutex::new(State::default()));
        let of_all = state.clone();
        std::thread::spawn(move || {
            for one in listener.incoming().map_while(Result::ok) {
                let Ok(other) = TcpStream::connect(to) else { continue };
                for (from, into, is_answer) in [(&one, &other, false), (&other, &one, true)] {
                    from.set_nodelay(true).unwrap();
                    let (from, into, state) = (from.try_clone().unwrap(), into.try_clone().unwrap(), of_all.clone());
                    std::thread::spawn(move || pass(from, into, &state, is_answer));
                }
            }
        });
        Between(state)
    }

    /// Does that to the next record.
    pub fn begin(&self, attack: Attack, is_answer: bool) {
        self.0.lock().unwrap().attack = Some((attack, is_answer));
    }

    /// Whether it was done.
    pub fn has_struck(&self) -> bool {
        self.0.lock().unwrap().attack.is_none()
    }

    /// All that went through.
    pub fn heard(&self) -> Vec<u8> {
        self.0.lock().unwrap().heard.clone()
    }
}

fn record(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut record = vec![0; 2];
    from.read_exact(&mut record)?;
    record.resize(2 + usize::from(u16::from_le_bytes([record[0], record[1]])), 0);
    from.read_exact(&mut record[2..])?;
    Ok(record)
}

fn pass(mut from: TcpStream, mut into: TcpStream, state: &Mutex<State>, is_answer: bool) {
    let mut go = || -> std::io::Result<()> {
        let mut greeting = vec![0; if is_answer { ANSWERED_LEN } else { ASKED_LEN }];
        from.read_exact(&mut greeting[..64])?;
        into.write_all(&greeting[..64])?;
        from.read_exact(&mut greeting[64..])?;
        into.write_all(&greeting[64..])?;
        loop {
            let mut bytes = record(&mut from)?;
            let attack = {
                let mut state = state.lock().unwrap();
                state.heard.extend_from_slice(&bytes);
                let mine = state.attack.filter(|(_, answers)| *answers == is_answer);
                mine.and_then(|_| state.attack.take()).map(|(attack, _)| attack)
            };
            match attack {
                None => into.write_all(&bytes)?,
                Some(Attack::Flip) => {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 4;
                    into.write_all(&bytes)?;
                }
                Some(Attack::Cut) => {
                    into.write_all(&bytes[..bytes.len() / 2])?;
                    return Ok(());
                }
                Some(Attack::Repeat) => into.write_all(&[&bytes[..], &bytes].concat())?,
                Some(Attack::Reorder) => {
                    let next = record(&mut from)?;
                    into.write_all(&[next, bytes].concat())?;
                }
                Some(Attack::Reflect) => {
                    from.write_all(&bytes)?;
                    into.write_all(&bytes)?;
                }
            }
        }
    };
    let _ = go();
    let _ = from.shutdown(Shutdown::Both);
    let _ = into.shutdown(Shutdown::Both);
}
