//! Scrapers' connections: one thread waits for all of them, and one for each page makes it.
//!
//! Whoever connects is taken in at once. When all places are taken, the one that has been silent longest makes way. So an idle crowd keeps
//! nobody waiting, however patient it is. A page is made once for all who ask for it meanwhile, so health never waits for metrics.

use super::request::{Page, Parsed, REQUEST_LEN_MAX, parse};
use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// An answer's status line and its body.
pub type Answer = (&'static str, String);

/// On what terms scrapers are served.
pub struct Terms {
    /// Token that they have to bring.
    pub token: Option<String>,
    /// Most of them at once.
    pub place_count: usize,
    /// Time for one to send its request, and as long to take the reply.
    pub patience: Duration,
}

/// Pages, in the order of their threads.
const PAGES: [Page; 3] = [Page::Health, Page::Ready, Page::Metrics];

/// Time that the listener rests after the system had no descriptor for a connection.
const REST: Duration = Duration::from_millis(5);

/// Serves scrapers that connect to `listener`; `make` makes pages, each in a thread of its own.
pub fn start(listener: TcpListener, terms: Terms, make: impl Fn(Page) -> Answer + Send + Sync + 'static) -> Result<()> {
    listener.set_nonblocking(true)?;
    let (bell, ring) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&bell, true)?;
    let (told, made) = channel();
    let make = Arc::new(make);
    let mut makers = Vec::new();
    for page in PAGES {
        let (ask, asked) = channel::<()>();
        let (make, told, ring) = (make.clone(), told.clone(), ring.try_clone()?);
        let run = move || asked.iter().try_for_each(|()| hand_over(page, make(page), &told, &ring));
        std::thread::Builder::new().name("prometheus-page".to_owned()).spawn(run)?;
        makers.push(Maker { ask, round: 0, is_busy: false });
    }
    let mut scrapers = Scrapers { listener, terms, bell, made, makers, places: BTreeMap::new(), next: 0, rests_until: None };
    std::thread::Builder::new().name("prometheus".to_owned()).spawn(move || {
        while scrapers.turn().is_ok() {}
        tracing::error!("scrapers are not served any more");
    })?;
    Ok(())
}

/// Hands a page to the thread that serves; `None` when that is gone.
fn hand_over(page: Page, answer: Answer, told: &Sender<(Page, Answer)>, mut ring: &PipeWriter) -> Option<()> {
    told.send((page, answer)).ok()?;
    ring.write_all(&[0]).ok()
}

/// A thread that makes a page.
struct Maker {
    ask: Sender<()>,
    /// Number of requests for the page.
    round: u64,
    is_busy: bool,
}

/// A scraper's connection.
struct Scraper {
    stream: TcpStream,
    /// When it came, or got its answer.
    since: Instant,
    state: State,
}

enum State {
    /// Its request, as far as it has come.
    Asks(Vec<u8>),
    /// Waits for a page that is made in that round.
    Waits(Page, u64),
    /// Takes its reply; with the rest of it.
    Takes(Vec<u8>),
}

impl Scraper {
    fn flags(&self) -> PollFlags {
        match self.state {
            State::Asks(_) => PollFlags::IN,
            // Its end is told all the same.
            State::Waits(..) => PollFlags::empty(),
            State::Takes(_) => PollFlags::OUT,
        }
    }

    /// Reads what has come of its request. `None` while more is to come. **Errors**: it has gone.
    fn read(&mut self, token: Option<&str>) -> std::io::Result<Option<Parsed>> {
        let State::Asks(request) = &mut self.state else { return Ok(None) };
        let mut part = [0; 2048];
        loop {
            match self.stream.read(&mut part[..(REQUEST_LEN_MAX - request.len()).min(2048)]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => request.extend_from_slice(&part[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            match parse(request, token) {
                Parsed::Partial => {}
                parsed => return Ok(Some(parsed)),
            }
        }
    }

    fn answer(&mut self, (status, body): &Answer) {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        (self.state, self.since) = (State::Takes((head + body).into_bytes()), Instant::now());
    }

    /// Writes what it takes of its answer. **Errors**: it has all, or has gone.
    fn write(&mut self) -> std::io::Result<()> {
        let State::Takes(left) = &mut self.state else { return Ok(()) };
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(len) => drop(left.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        Err(ErrorKind::UnexpectedEof.into())
    }
}

struct Scrapers {
    listener: TcpListener,
    terms: Terms,
    bell: PipeReader,
    made: Receiver<(Page, Answer)>,
    makers: Vec<Maker>,
    /// The oldest first.
    places: BTreeMap<u64, Scraper>,
    next: u64,
    rests_until: Option<Instant>,
}

impl Scrapers {
    /// Waits for something to happen, and sees to it.
    fn turn(&mut self) -> std::io::Result<()> {
        let ready = self.wait()?;
        self.hear();
        for id in ready {
            self.move_one(id);
        }
        let patience = self.terms.patience;
        self.places.retain(|_, scraper| matches!(scraper.state, State::Waits(..)) || scraper.since.elapsed() < patience);
        self.take_in();
        Ok(())
    }

    /// The scrapers of which something has happened.
    fn wait(&self) -> std::io::Result<Vec<u64>> {
        let dues = self.places.values().filter(|scraper| !matches!(scraper.state, State::Waits(..)));
        let due = dues.map(|scraper| scraper.since + self.terms.patience).chain(self.rests_until).min();
        let left = due.map(|due| due.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let left = left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        let mut watched = vec![PollFd::new(&self.bell, PollFlags::IN)];
        watched.extend(self.places.values().map(|scraper| PollFd::new(&scraper.stream, scraper.flags())));
        if self.rests_until.is_none() && self.has_room() {
            watched.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        match poll(&mut watched, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let happened = watched[1..].iter().map(|fd| !fd.revents().is_empty());
        Ok(self.places.keys().copied().zip(happened).filter(|(_, happened)| *happened).map(|(id, _)| id).collect())
    }

    /// True if a new connection gets a place, perhaps that of another.
    fn has_room(&self) -> bool {
        self.places.len() < self.terms.place_count || self.least_wanted().is_some()
    }

    /// Connection to close first: one without a request for longest, or else one that takes its reply slowly.
    fn least_wanted(&self) -> Option<u64> {
        let oldest = |is_one: fn(&State) -> bool| self.places.iter().find(|(_, it)| is_one(&it.state)).map(|(id, _)| *id);
        oldest(|state| matches!(state, State::Asks(_))).or_else(|| oldest(|state| matches!(state, State::Takes(_))))
    }

    /// Takes in who waits at the listener.
    fn take_in(&mut self) {
        self.rests_until.take_if(|until| *until <= Instant::now());
        while self.rests_until.is_none() && self.has_room() {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => continue,
                Err(_) => {
                    // No descriptor is left: the least wanted gives one back.
                    self.make_way();
                    self.rests_until = Some(Instant::now() + REST);
                    return;
                }
            };
            if self.places.len() >= self.terms.place_count {
                self.make_way();
            }
            if stream.set_nonblocking(true).is_ok() {
                self.places.insert(self.next, Scraper { stream, since: Instant::now(), state: State::Asks(Vec::new()) });
                self.move_one(self.next);
                self.next += 1;
            }
        }
    }

    fn make_way(&mut self) {
        if let Some(id) = self.least_wanted() {
            self.places.remove(&id);
        }
    }

    /// Goes on with a scraper that has sent something, takes something, or has gone.
    fn move_one(&mut self, id: u64) {
        let Some(scraper) = self.places.get_mut(&id) else { return };
        let moved = match scraper.state {
            State::Asks(_) => scraper.read(self.terms.token.as_deref()).and_then(|parsed| match parsed {
                Some(parsed) => self.on_request(id, parsed),
                None => Ok(()),
            }),
            // A waiting client that sends an end has gone.
            State::Waits(..) => Err(ErrorKind::UnexpectedEof.into()),
            State::Takes(_) => scraper.write(),
        };
        if moved.is_err() {
            self.places.remove(&id);
        }
    }

    fn on_request(&mut self, id: u64, parsed: Parsed) -> std::io::Result<()> {
        let Some(scraper) = self.places.get_mut(&id) else { return Ok(()) };
        let answer = match parsed {
            Parsed::Partial => return Ok(()),
            Parsed::For(page) => {
                let maker = &mut self.makers[page as usize];
                // The page that is being made may be older than this request.
                scraper.state = State::Waits(page, maker.round + 1);
                if !maker.is_busy {
                    begin(maker);
                }
                return Ok(());
            }
            Parsed::NotLetIn => ("401 Unauthorized", "scrapers bring this node's token\n"),
            Parsed::NoPage => ("404 Not Found", "only GET /metrics, /healthz and /readyz\n"),
            Parsed::TooLong => ("431 Request Header Fields Too Large", "a request has 8 KiB at most\n"),
        };
        scraper.answer(&(answer.0, answer.1.to_owned()));
        scraper.write()
    }

    /// Takes the pages that have been made, and gives them to who waits for them.
    fn hear(&mut self) {
        let _ = self.bell.read(&mut [0; 64]);
        while let Ok((page, answer)) = self.made.try_recv() {
            let maker = &mut self.makers[page as usize];
            maker.is_busy = false;
            let now = maker.round;
            let waits = |scraper: &Scraper| matches!(scraper.state, State::Waits(of, round) if of == page && round <= now);
            let those: Vec<u64> = self.places.iter().filter(|(_, it)| waits(it)).map(|(id, _)| *id).collect();
            for id in those {
                if let Some(scraper) = self.places.get_mut(&id) {
                    scraper.answer(&answer);
                    self.move_one(id);
                }
            }
            if self.places.values().any(|scraper| matches!(scraper.state, State::Waits(of, _) if of == page)) {
                begin(&mut self.makers[page as usize]);
            }
        }
    }
}

fn begin(maker: &mut Maker) {
    maker.round += 1;
    maker.is_busy = maker.ask.send(()).is_ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn connect(address: std::net::SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn answer(mut stream: TcpStream) -> String {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn ask(address: std::net::SocketAddr, page: &str) -> TcpStream {
        let mut stream = connect(address);
        stream.write_all(format!("GET {page} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        stream
    }

    /// Serves without time limits, so that no reply comes from giving others up.
    fn serve(make: impl Fn(Page) -> Answer + Send + Sync + 'static) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        start(listener, Terms { token: None, place_count: 16, patience: Duration::from_secs(3600) }, make).unwrap();
        address
    }

    #[test]
    fn a_patient_crowd_that_says_nothing_keeps_no_probe_out() {
        let address = serve(|page| ("200 OK", format!("{page:?}")));
        let mut crowd: Vec<TcpStream> = (0..100).map(|_| connect(address)).collect();
        crowd.iter_mut().for_each(|stream| drop(stream.write_all(b"GET ")));
        for (page, body) in [("/healthz", "Health"), ("/readyz", "Ready"), ("/metrics", "Metrics")] {
            assert!(answer(ask(address, page)).ends_with(body));
        }
    }

    #[test]
    fn health_is_told_while_metrics_take_long_and_a_page_is_made_once_for_all_who_wait() {
        let (go_on, wait) = channel::<()>();
        let (wait, count) = (Mutex::new(wait), Mutex::new(0));
        let address = serve(move |page| {
            if page == Page::Metrics {
                wait.lock().unwrap().recv().unwrap();
                *count.lock().unwrap() += 1;
            }
            ("200 OK", format!("{page:?} {}", count.lock().unwrap()))
        });
        let first = ask(address, "/metrics");
        let rest: Vec<TcpStream> = (0..9).map(|_| ask(address, "/metrics")).collect();
        // Answered behind them, so all of them are known by then.
        assert!(answer(ask(address, "/healthz")).contains("Health 0"));
        (0..2).for_each(|_| go_on.send(()).unwrap());
        assert!(answer(first).ends_with("Metrics 1"));
        rest.into_iter().for_each(|stream| assert!(answer(stream).ends_with("Metrics 2")));
    }
}
