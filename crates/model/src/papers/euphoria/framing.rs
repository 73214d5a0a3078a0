//! Packets on a line: bytes between a start and an end delimiter, each a symbol of ten bits (8B/10B).
use super::timing::Timing;
use crate::time::Picos;

/// A code on the line: 8B/10B keeps control codes apart from all 256 bytes, so delimiters need no escaping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// Start delimiter SD.
    Start,
    /// A byte.
    Byte(u8),
    /// End delimiter ED.
    End,
    /// Sent while there is no packet, so that the receiver's clock stays locked.
    Idle,
}

/// Symbols of a packet of `bytes`.
// FEATURE: EU-F6
pub fn frame(bytes: &[u8]) -> Vec<Symbol> {
    let body = bytes.iter().copied().map(Symbol::Byte);
    std::iter::once(Symbol::Start).chain(body).chain(std::iter::once(Symbol::End)).collect()
}

/// The packets in a stream of symbols; a packet whose end is missing, or that another start cuts off, is dropped.
pub fn unframe(symbols: &[Symbol]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut open: Option<Vec<u8>> = None;
    for symbol in symbols {
        match (symbol, &mut open) {
            (Symbol::Start, _) => open = Some(Vec::new()),
            (Symbol::Byte(byte), Some(packet)) => packet.push(*byte),
            (Symbol::End, Some(packet)) => {
                packets.push(std::mem::take(packet));
                open = None;
            }
            _ => {}
        }
    }
    packets
}

/// The time `symbols` occupy a wavelength.
pub fn line_time(timing: &Timing, symbols: &[Symbol]) -> Picos {
    timing.byte * symbols.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::euphoria::parameters::parameters;

    #[test]
    fn an_address_packet_is_seven_bytes_between_delimiters() {
        let timing = Timing::new(&parameters());
        let symbols = frame(&[0; 7]);
        assert_eq!(symbols.len() as u64, timing.p_addr);
        assert_eq!(line_time(&timing, &symbols), Picos::ns(360));
    }

    #[test]
    fn packets_come_back_and_broken_ones_do_not() {
        let mut stream = vec![Symbol::Idle, Symbol::Byte(9)];
        stream.extend(frame(&[1, 2]));
        stream.push(Symbol::Idle);
        stream.extend([Symbol::Start, Symbol::Byte(3)]);
        stream.extend(frame(&[]));
        stream.extend([Symbol::Start, Symbol::Byte(4)]);
        assert_eq!(unframe(&stream), [vec![1, 2], vec![]]);
    }
}
