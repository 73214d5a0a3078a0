//! A scraper's request: its first line, and the token that it brings.

/// Longest request that is read; a scraper's is a few hundred bytes.
pub const REQUEST_LEN_MAX: usize = 8 << 10;

/// A page that scrapers ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Tells that the node lives: its control thread replies.
    Health,
    /// Tells that it is ready: it is a member of its pool.
    Ready,
    /// All metrics.
    Metrics,
}

/// Meaning of a scraper's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// More is to come.
    Partial,
    /// A request for a page, with the right to it.
    For(Page),
    /// A request without the token.
    NotLetIn,
    /// There is no such page.
    NoPage,
    /// Longer than any request.
    TooLong,
}

/// Reads a request as far as it has come. Where there is a `token` the request for metrics has to bring it, as `Authorization: Bearer`. An
/// orchestrator's probes bring none; they learn one bit.
pub fn parse(bytes: &[u8], token: Option<&str>) -> Parsed {
    let Some(end) = end_of(bytes) else {
        return if bytes.len() < REQUEST_LEN_MAX { Parsed::Partial } else { Parsed::TooLong };
    };
    let mut lines = bytes[..end].split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.next().unwrap_or_default();
    let words: Vec<&[u8]> = first.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    match words[..] {
        [b"GET", b"/healthz", _] => Parsed::For(Page::Health),
        [b"GET", b"/readyz", _] => Parsed::For(Page::Ready),
        _ if token.is_some_and(|token| !brings(token, lines.by_ref())) => Parsed::NotLetIn,
        [b"GET", b"/metrics", _] => Parsed::For(Page::Metrics),
        _ => Parsed::NoPage,
    }
}

/// End of the lines, before the empty one.
fn end_of(bytes: &[u8]) -> Option<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    ends.into_iter().find(|at| matches!(bytes[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

/// True if a request's lines bring the token. The comparison takes as long for any other of that length.
fn brings<'a>(token: &str, lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let is_token = |found: &[u8]| {
        let differs = found.iter().zip(token.as_bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
        found.len() == token.len() && differs == 0
    };
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        if line[..colon].eq_ignore_ascii_case(b"authorization") {
            return line[colon + 1..].trim_ascii().strip_prefix(b"Bearer ").is_some_and(|found| is_token(found.trim_ascii()));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn a_request_is_read_when_its_empty_line_has_come() {
        let whole = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nauthorization:  Bearer {TOKEN} \r\n\r\n");
        for len in 0..whole.len() {
            assert_eq!(parse(&whole.as_bytes()[..len], Some(TOKEN)), Parsed::Partial, "{len}");
        }
        assert_eq!(parse(whole.as_bytes(), Some(TOKEN)), Parsed::For(Page::Metrics));
        assert_eq!(parse(b"GET /healthz HTTP/1.0\n\nmore", None), Parsed::For(Page::Health));
        assert_eq!(parse(b"GET /readyz HTTP/1.1\r\n\r\n", None), Parsed::For(Page::Ready));
        assert_eq!(parse(b"POST /readyz HTTP/1.1\r\n\r\n", None), Parsed::NoPage);
        assert_eq!(parse(&[b'x'; REQUEST_LEN_MAX], None), Parsed::TooLong);
    }

    #[test]
    fn another_token_than_the_node_s_is_none() {
        for header in
            ["", "authorization: Bearer 0123456789abcdeX\r\n", "Authorization: Bearer 0123456789abcdef0\r\n", "Token: x\r\n"]
        {
            let request = format!("GET /metrics HTTP/1.1\r\n{header}\r\n");
            assert_eq!(parse(request.as_bytes(), Some(TOKEN)), Parsed::NotLetIn, "{header}");
        }
        assert_eq!(parse(b"GET /readyz HTTP/1.1\r\n\r\n", Some(TOKEN)), Parsed::For(Page::Ready), "probes bring none");
    }
}
