//! The proof of both sides, and the keys of later records. It is Noise's NN with a secret for this pair of hellos alone.
//!
//! ```text
//! connector                       acceptor          prologue: both hellos
//!    psk, e               --->                      opens: the connector has the secret
//!                         <---    e, ee             opens: the acceptor has it too
//! ```
//!
//! A side that changes a hello, or brings a message of another connection, has no keys that fit. Both sides forget their keys with the
//! connection, so a later thief of the pool's key cannot read recorded bytes.
//!
//! SOURCE: [Noise, revision 34, §7.5 NN, §9 psk0]; snow with ring's AES-GCM, which the processor does in hardware.

use super::seal_keys::SealKeys;
use super::{Hellos, Secret};
use hanare_protocol::Error;
use hanare_protocol::wire::link::LinkKeys;
use snow::error::StateProblem;
use snow::{Builder, HandshakeState};

/// Bytes of the connector's message: a public key and a tag.
pub(crate) const FIRST_LEN: usize = 48;

/// Most bytes of the acceptor's message: a public key, a tag, and a refusal of a few hundred bytes.
pub(crate) const SECOND_LEN_MAX: usize = 4096;

/// Beside a payload, the bytes of a message.
const OVERHEAD_LEN: usize = 48;

/// A side before it has the keys.
pub(crate) struct Handshake(HandshakeState);

/// The message was made without the secret, or for another connection.
#[derive(Debug)]
pub(crate) struct Unproved;

impl Handshake {
    pub(crate) fn connector(hellos: &Hellos, secret: &Secret) -> Result<Handshake, Error> {
        builder(hellos, secret).and_then(Builder::build_initiator).map(Handshake).map_err(|error| failed(&error))
    }

    pub(crate) fn acceptor(hellos: &Hellos, secret: &Secret) -> Result<Handshake, Error> {
        builder(hellos, secret).and_then(Builder::build_responder).map(Handshake).map_err(|error| failed(&error))
    }

    /// The connector's message.
    pub(crate) fn first(&mut self) -> Result<[u8; FIRST_LEN], Error> {
        let mut message = [0; FIRST_LEN];
        self.0.write_message(&[], &mut message).map_err(|error| failed(&error))?;
        Ok(message)
    }

    /// Takes the connector's message. **Cost**: no public-key operation, so strangers cost little.
    pub(crate) fn take_first(&mut self, message: &[u8; FIRST_LEN]) -> Result<(), Unproved> {
        self.0.read_message(message, &mut []).map(drop).map_err(|_| Unproved)
    }

    /// The acceptor's message with its payload: a refusal, or nothing.
    pub(crate) fn second(&mut self, payload: &[u8]) -> Result<Vec<u8>, Error> {
        let mut message = vec![0; OVERHEAD_LEN + payload.len()];
        self.0.write_message(payload, &mut message).map_err(|error| failed(&error))?;
        Ok(message)
    }

    /// Takes the acceptor's message; returns its payload.
    pub(crate) fn take_second(&mut self, message: &[u8]) -> Result<Vec<u8>, Unproved> {
        let mut payload = vec![0; message.len()];
        let len = self.0.read_message(message, &mut payload).map_err(|_| Unproved)?;
        payload.truncate(len);
        Ok(payload)
    }

    /// The keys of both directions, when both messages are through.
    pub(crate) fn keys(mut self) -> Result<SealKeys, Error> {
        if !self.0.is_handshake_finished() {
            return Err(failed(&StateProblem::HandshakeNotFinished.into()));
        }
        // The raw keys, because a node hands connections on to programs (`super::handover`).
        let (connector, acceptor) = self.0.dangerously_get_raw_split();
        let (seals, opens) = if self.0.is_initiator() { (connector, acceptor) } else { (acceptor, connector) };
        Ok(SealKeys::new(LinkKeys { seals, opens }))
    }
}

fn builder<'a>(hellos: &'a Hellos, secret: &'a Secret) -> Result<Builder<'a>, snow::Error> {
    Builder::new("Noise_NNpsk0_25519_AESGCM_SHA256".parse()?).prologue(hellos)?.psk(0, secret)
}

/// Steps out of order and a kernel without random bytes: nothing that a peer can bring about.
fn failed(error: &snow::Error) -> Error {
    Error::System { what: "the handshake of a connection".to_owned(), reason: error.to_string() }
}

/// The keys of both sides of one connection.
#[cfg(any(test, fuzzing))]
pub(crate) fn pair() -> (SealKeys, SealKeys) {
    let (hellos, secret) = ([1; 128], [2; 32]);
    let mut one = Handshake::connector(&hellos, &secret).unwrap();
    let mut other = Handshake::acceptor(&hellos, &secret).unwrap();
    other.take_first(&one.first().unwrap()).unwrap();
    assert_eq!(one.take_second(&other.second(b"said").unwrap()).unwrap(), b"said");
    (one.keys().unwrap(), other.keys().unwrap())
}

#[cfg(test)]
mod tests {
    use super::super::seal_keys::Unsealed;
    use super::*;

    #[test]
    fn neither_side_is_believed_without_the_secret_or_for_other_hellos() {
        let (hellos, secret) = ([1; 128], [2; 32]);
        let mut flipped = hellos;
        flipped[127] ^= 1;
        for (hellos_there, secret_there) in [(hellos, [3; 32]), (flipped, secret)] {
            let mut one = Handshake::connector(&hellos, &secret).unwrap();
            let mut other = Handshake::acceptor(&hellos_there, &secret_there).unwrap();
            assert!(other.take_first(&one.first().unwrap()).is_err());
            // An acceptor that takes it all the same cannot answer.
            let mut liar = Handshake::acceptor(&hellos_there, &secret_there).unwrap();
            let mut own = Handshake::connector(&hellos_there, &secret_there).unwrap();
            liar.take_first(&own.first().unwrap()).unwrap();
            assert!(one.take_second(&liar.second(&[]).unwrap()).is_err());
        }
    }

    #[test]
    fn what_is_sealed_opens_under_its_number_at_the_other_side_alone() {
        let (one, other) = pair();
        let (mut sealed, mut plain) = ([0; 21], [0; 21]);
        assert_eq!(one.seal_frame(3, b"grant", &mut sealed), Ok(21));
        assert!(!sealed.windows(5).any(|bytes| bytes == b"grant"));
        assert_eq!(other.open_frame(4, &sealed, &mut plain), Err(Unsealed), "another frame's number");
        assert_eq!(other.open_record(3, &sealed, &mut plain), Err(Unsealed), "a record's number");
        assert_eq!(one.open_frame(3, &sealed, &mut plain), Err(Unsealed), "its own side");
        assert_eq!(other.open_frame(3, &sealed, &mut plain), Ok(5));
        assert_eq!(&plain[..5], b"grant");
        for number in [1 << 63, u64::MAX] {
            assert_eq!(one.seal_record(number, b"grant", &mut sealed), Err(Unsealed));
            assert_eq!(one.seal_frame(number, b"grant", &mut sealed), Err(Unsealed));
        }
    }
}
