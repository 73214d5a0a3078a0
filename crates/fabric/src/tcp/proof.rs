//! The proof of the pool's key: a keyed hash over both hellos, so that neither side can use it anywhere else.

use super::{Hellos, Proof};

/// The proof that a connector with this key sends; of zeros where the pool has no key.
pub fn proof(key: Option<&[u8; 32]>, hellos: &Hellos) -> Proof {
    match key {
        None => [0; size_of::<Proof>()],
        Some(key) => *blake3::keyed_hash(key, hellos).as_bytes(),
    }
}

/// Whether it is the proof that was asked for; takes the same time wherever it differs.
pub fn is_proof(key: Option<&[u8; 32]>, hellos: &Hellos, given: &Proof) -> bool {
    blake3::Hash::from_bytes(proof(key, hellos)) == blake3::Hash::from_bytes(*given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_one_key_and_one_pair_of_hellos() {
        let (key, other) = ([1; 32], [2; 32]);
        let hellos = [3; 128];
        let given = proof(Some(&key), &hellos);
        assert!(is_proof(Some(&key), &hellos, &given));
        assert!(!is_proof(Some(&other), &hellos, &given));
        assert!(!is_proof(Some(&key), &[4; 128], &given));
        assert!(!is_proof(Some(&key), &hellos, &[0; 32]), "no proof is none");
        assert!(is_proof(None, &hellos, &[0; 32]));
        assert!(!is_proof(None, &hellos, &given), "a pool without a key says so to those who bring one");
    }
}
