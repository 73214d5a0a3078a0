//! The simulated pool: virtual time, events, and the machines driven as a node's process drives them.

use crate::Sabotage;
use crate::checks::{Check, Checks, check};
use crate::dice::Dice;
use crate::jobs::Programs;
use crate::network::{Connections, Weather};
use crate::process::{Home, Host, Process, name};
use crate::report::Plan;
use hanare_protocol::barrier::{self, Jobs};
use hanare_protocol::coordinator::{self, Coordinator, Peer, Record};
use hanare_protocol::id::{Epoch, Gid, Incarnation, NodeId};
use hanare_protocol::member;
use hanare_protocol::wire::control::{Answer, Arrival, FromNode, HeldExtent, ToNode};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// How many lines of the past a failure shows.
const TRAIL_LEN: usize = 60;

/// Virtual time after the faults in which everything must come to rest.
const QUIET_MS: u64 = 60_000;

/// Bytes that a user may have in regions.
pub(crate) const QUOTA: u64 = 2 << 20;

/// Something that happens at a moment.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    ToHome { peer: Peer, message: FromNode },
    ToNode { peer: Peer, message: ToNode },
    ClosedAtHome { peer: Peer },
    ClosedAtNode { peer: Peer },
    Connect { node: usize, life: u64 },
    TickHome { life: u64 },
    TickNode { node: usize, life: u64 },
    Made { node: usize, life: u64, order: u64, gid: Gid, lens: Vec<u64> },
    Regranted { node: usize, life: u64, epoch: Epoch },
    Work { node: usize, life: u64, client: usize },
    Launch,
    Rank { job: usize, rank: usize },
    RankDies { job: usize, rank: usize },
    RankEnded { job: usize, rank: usize },
    Arrive { life: u64, arrival: Arrival },
    BarrierAnswer { output: barrier::Output },
    Fault,
    Restart { node: usize },
    Resume { node: usize },
    Heal { node: usize },
}

/// The whole simulated world.
pub(crate) struct Cluster {
    pub plan: Plan,
    pub sabotage: Sabotage,
    pub dice: Dice,
    pub now_ms: u64,
    pub hosts: Vec<Host>,
    pub home: Option<Home>,
    pub connections: Connections,
    pub weather: Weather,
    pub journal: Vec<Record>,
    pub checks: Checks,
    pub programs: Programs,
    /// Whether faults and new work still come.
    pub is_rough: bool,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    event_next: u64,
    deferred: Vec<Event>,
    lives: u64,
    counts: BTreeMap<&'static str, u64>,
    trail: VecDeque<String>,
}

impl Cluster {
    pub fn new(plan: Plan, sabotage: Sabotage) -> Cluster {
        let mut dice = Dice::new(plan.seed);
        let weather = Weather::throw(&mut dice);
        let mut cluster = Cluster {
            plan,
            sabotage,
            dice,
            now_ms: 0,
            hosts: (0..plan.nodes).map(|_| Host::default()).collect(),
            home: None,
            connections: Connections::default(),
            weather,
            journal: Vec::new(),
            checks: Checks::default(),
            programs: Programs::default(),
            is_rough: true,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            event_next: 0,
            deferred: Vec::new(),
            lives: 0,
            counts: BTreeMap::new(),
            trail: VecDeque::new(),
        };
        for node in 0..cluster.hosts.len() {
            cluster.at(node as u64, Event::Restart { node });
        }
        cluster.at(500, Event::Fault);
        cluster.at(1000, Event::Launch);
        cluster
    }

    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.clone()
    }

    pub fn trail(&self) -> Vec<String> {
        self.trail.iter().cloned().collect()
    }

    /// Counts something that happened.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Keeps a line of what happened for a failure's report.
    pub fn note(&mut self, line: String) {
        if self.trail.len() == TRAIL_LEN {
            self.trail.pop_front();
        }
        self.trail.push_back(format!("{:>8} ms  {line}", self.now_ms));
    }

    /// Lets an event happen after a while.
    pub fn at(&mut self, after_ms: u64, event: Event) {
        self.queue.push(Reverse((self.now_ms + after_ms, self.event_next)));
        self.events.insert(self.event_next, event);
        self.event_next += 1;
    }

    /// Runs to the end of the plan, then until all is quiet.
    pub fn run(&mut self, progress: &mut dyn FnMut(f64)) -> Check {
        let rough_ms = (self.plan.minutes * 60_000.0) as u64;
        let end_ms = rough_ms + QUIET_MS;
        let mut steps = 0_u64;
        while let Some(Reverse((at_ms, number))) = self.queue.pop() {
            if at_ms >= end_ms {
                break;
            }
            self.now_ms = at_ms;
            if self.is_rough && at_ms >= rough_ms {
                self.calm_down();
            }
            let event = self.events.remove(&number).expect("each event is queued once");
            self.happen(event)?;
            self.judge()?;
            steps += 1;
            if steps.is_multiple_of(4096) {
                progress((at_ms as f64 / end_ms as f64).min(1.0));
            }
        }
        self.counts.insert("events", steps);
        progress(1.0);
        self.judge_rest()
    }

    /// What was meant for a stopped process waits until it goes on.
    pub fn resume_deferred(&mut self) {
        for event in std::mem::take(&mut self.deferred) {
            self.at(0, event);
        }
    }

    /// The host whose process an event needs, if it needs one.
    fn place_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::ToHome { .. } | Event::ClosedAtHome { .. } | Event::TickHome { .. } | Event::Arrive { .. } => Some(0),
            Event::ToNode { peer, .. } | Event::ClosedAtNode { peer } => {
                self.connections.open.get(peer).map(|connection| connection.node)
            }
            Event::Connect { node, .. }
            | Event::TickNode { node, .. }
            | Event::Made { node, .. }
            | Event::Regranted { node, .. }
            | Event::Work { node, .. } => Some(*node),
            _ => None,
        }
    }

    fn happen(&mut self, event: Event) -> Check {
        if self.place_of(&event).is_some_and(|node| self.hosts[node].is_stopped) {
            self.deferred.push(event);
            return Ok(());
        }
        match event {
            Event::ToHome { peer, message } => self.on_to_home(peer, message),
            Event::ToNode { peer, message } => self.on_to_node(peer, message),
            Event::ClosedAtHome { peer } => self.on_closed_at_home(peer),
            Event::ClosedAtNode { peer } => self.on_closed_at_node(peer),
            Event::Connect { node, life } => self.on_connect(node, life),
            Event::TickHome { life } => self.on_tick_home(life),
            Event::TickNode { node, life } => self.on_tick_node(node, life),
            Event::Made { node, life, order, gid, lens } => self.on_made(node, life, order, gid, &lens),
            Event::Regranted { node, life, epoch } => self.on_regranted(node, life, epoch),
            Event::Work { node, life, client } => self.on_work(node, life, client),
            Event::Launch => self.on_launch(),
            Event::Rank { job, rank } => self.on_rank(job, rank),
            Event::RankDies { job, rank } => self.on_rank_dies(job, rank),
            Event::RankEnded { job, rank } => self.on_rank_ended(job, rank),
            Event::Arrive { life, arrival } => self.on_arrive(life, arrival),
            Event::BarrierAnswer { output } => self.on_barrier_answer(output),
            Event::Fault => self.on_fault(),
            Event::Restart { node } => self.on_restart(node),
            Event::Resume { node } => self.on_resume(node),
            Event::Heal { node } => {
                self.hosts[node].is_partitioned = false;
                Ok(())
            }
        }
    }

    /// A process starts on a host, with the pool's home when it is node 0's.
    pub fn on_restart(&mut self, node: usize) -> Check {
        if self.hosts[node].process.is_some() {
            return Ok(());
        }
        self.lives += 1;
        let life = self.lives;
        self.note(format!("{} starts in life {life}", name(node)));
        let incarnation = self.incarnation(node, life);
        let process = Process::new(node, life, incarnation, 3);
        for client in 0..process.clients.len() {
            let after = self.dice.between(10, 2000);
            self.at(after, Event::Work { node, life, client });
        }
        self.hosts[node].process = Some(process);
        if node == 0 {
            self.start_home(life);
        }
        self.on_connect(node, life)
    }

    /// The random number of a process.
    fn incarnation(&self, node: usize, life: u64) -> Incarnation {
        match self.sabotage {
            #[cfg(test)]
            Sabotage::ReuseIncarnation => Incarnation(node as u128 + 1),
            _ => Incarnation((u128::from(life) << 8) + node as u128 + 1),
        }
    }

    fn start_home(&mut self, life: u64) {
        let settings = coordinator::Settings { quota: Some(QUOTA), ..coordinator::Settings::new(&name(0)) };
        let coordinator = Coordinator::restore(settings, self.journal.iter().cloned(), self.now_ms);
        self.home = Some(Home { life, coordinator, jobs: Jobs::new(), tick_at: None });
    }

    /// A process dies: what it had done is done, what it was about to do is not.
    pub fn crash(&mut self, node: usize) {
        let Some(process) = self.hosts[node].process.take() else { return };
        self.note(format!("{} dies in life {}", name(node), process.life));
        self.count("process deaths");
        self.hosts[node].is_stopped = false;
        self.resume_deferred();
        for (job, rank) in self.programs.on_node_died(node, process.life) {
            let after = self.dice.between(0, 5_000);
            self.at(after, Event::RankEnded { job, rank });
        }
        if let Some(peer) = process.connection {
            self.connections.close(peer, true);
            let after = self.notice_ms(node);
            self.at(after, Event::ClosedAtHome { peer });
        }
        if node == 0 {
            self.home = None;
            let open: Vec<Peer> = self.connections.open.keys().copied().collect();
            for peer in open {
                let other = self.connections.open[&peer].node;
                self.connections.close(peer, false);
                let after = self.notice_ms(other);
                self.at(after, Event::ClosedAtNode { peer });
            }
        }
    }

    /// How long the other side takes to notice a closed connection: at once, or only when keep-alives fail.
    pub fn notice_ms(&mut self, node: usize) -> u64 {
        match self.hosts[node].is_partitioned {
            true => self.dice.between(5_000, 20_000),
            false => self.dice.between(0, 50),
        }
    }

    fn on_connect(&mut self, node: usize, life: u64) -> Check {
        let is_reachable = !self.hosts[node].is_partitioned && !self.hosts[0].is_stopped;
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.life == life) else { return Ok(()) };
        if process.connection.is_some() {
            return Ok(());
        }
        let Some(home) = self.home.as_ref().filter(|_| is_reachable || node == 0) else {
            let after = self.dice.between(100, 500);
            self.at(after, Event::Connect { node, life });
            return Ok(());
        };
        let peer = self.connections.open(node, life, home.life);
        process.connection = Some(peer);
        process.member.connected(self.now_ms);
        self.drain_node(node)
    }

    /// Sends between a node and the coordinator; the coordinator's own node is not on the network.
    fn transmit(&mut self, peer: Peer, event: Event) {
        let Some(connection) = self.connections.open.get(&peer).copied() else { return };
        if connection.node == 0 {
            return self.at(0, event);
        }
        if self.hosts[connection.node].is_partitioned {
            return self.count("messages lost");
        }
        let arrivals = self.weather.arrivals(&mut self.dice);
        match arrivals.len() {
            0 => self.count("messages lost"),
            1 => self.count("messages"),
            _ => self.count("messages duplicated"),
        }
        for after in arrivals {
            self.at(after, event.clone());
        }
    }

    fn on_to_home(&mut self, peer: Peer, message: FromNode) -> Check {
        let is_open = self.connections.open.get(&peer).is_some_and(|connection| connection.is_open_at_home);
        let Some(home) = self.home.as_mut().filter(|_| is_open) else { return Ok(()) };
        if !matches!(message, FromNode::Renew { .. }) {
            let line = format!("coordinator <- {peer:?} {message:?}");
            home.coordinator.handle(self.now_ms, peer, message);
            self.note(line);
        } else {
            home.coordinator.handle(self.now_ms, peer, message);
        }
        self.drain_home()
    }

    fn on_to_node(&mut self, peer: Peer, message: ToNode) -> Check {
        let Some(connection) = self.connections.open.get(&peer).copied().filter(|connection| connection.is_open_at_node) else {
            return Ok(());
        };
        if !matches!(message, ToNode::Renewed { .. }) {
            self.note(format!("{} <- {message:?}", name(connection.node)));
        }
        if let Some(process) = self.hosts[connection.node].process.as_mut().filter(|process| process.life == connection.node_life)
        {
            process.member.handle(self.now_ms, message);
        }
        self.drain_node(connection.node)
    }

    fn on_closed_at_home(&mut self, peer: Peer) -> Check {
        let Some(home_life) = self.connections.open.get(&peer).map(|connection| connection.home_life) else { return Ok(()) };
        self.connections.close(peer, false);
        match self.home.as_mut().filter(|home| home.life == home_life) {
            Some(home) => home.coordinator.disconnected(self.now_ms, peer, "connection reset"),
            None => return Ok(()),
        }
        self.note(format!("coordinator: {peer:?} is closed"));
        self.drain_home()
    }

    fn on_closed_at_node(&mut self, peer: Peer) -> Check {
        let Some(connection) = self.connections.open.get(&peer).copied() else { return Ok(()) };
        self.connections.close(peer, true);
        let (node, life) = (connection.node, connection.node_life);
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.connection == Some(peer)) else {
            return Ok(());
        };
        process.connection = None;
        process.member.disconnected();
        #[cfg(test)]
        if self.sabotage == Sabotage::ForgetExtents {
            process.lender.extents.clear();
        }
        let after = self.dice.between(10, 500);
        self.at(after, Event::Connect { node, life });
        self.drain_node(node)
    }

    fn on_tick_home(&mut self, life: u64) -> Check {
        let Some(home) = self.home.as_mut().filter(|home| home.life == life) else { return Ok(()) };
        home.tick_at = None;
        home.coordinator.tick(self.now_ms);
        self.drain_home()
    }

    fn on_tick_node(&mut self, node: usize, life: u64) -> Check {
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.life == life) else { return Ok(()) };
        process.tick_at = None;
        process.member.set_memory(process.lender.memory());
        process.member.tick(self.now_ms);
        self.drain_node(node)
    }

    fn on_made(&mut self, node: usize, life: u64, order: u64, gid: Gid, lens: &[u64]) -> Check {
        let refuses = self.is_rough && self.dice.chance(200);
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.life == life) else { return Ok(()) };
        let made = match refuses {
            true => Err(hanare_protocol::Error::System { what: "memfd_create".into(), reason: "too many open files".into() }),
            false => process.lender.make(gid, lens),
        };
        let (epoch, held) = (process.lender.epoch, made.clone().unwrap_or_default());
        process.member.made(order, made);
        self.granted(node, epoch, &held);
        self.drain_node(node)
    }

    fn granted(&mut self, node: usize, epoch: Epoch, held: &[HeldExtent]) {
        let Some((id, _)) = self.hosts[node].process.as_ref().and_then(|process| process.member.identity()) else { return };
        for extent in held {
            self.checks.on_granted(extent.read, id, epoch, extent.gid);
            self.checks.on_granted(extent.write, id, epoch, extent.gid);
        }
    }

    fn on_regranted(&mut self, node: usize, life: u64, epoch: Epoch) -> Check {
        let Some(process) = self.hosts[node].process.as_mut().filter(|process| process.life == life) else { return Ok(()) };
        let held: Vec<HeldExtent> = process.lender.extents.values().copied().collect();
        process.member.regranted(self.now_ms, epoch, held);
        self.drain_node(node)
    }

    /// Acts on all outputs of a node's membership.
    pub fn drain_node(&mut self, node: usize) -> Check {
        loop {
            let Some(process) = self.hosts[node].process.as_mut() else { return Ok(()) };
            let (life, connection) = (process.life, process.connection);
            let Some(output) = process.member.poll() else { break };
            match output {
                member::Output::Send(message) => {
                    if let Some(peer) = connection {
                        self.transmit(peer, Event::ToHome { peer, message });
                    }
                }
                member::Output::Make { order, gid, lens } => {
                    let is_slow = self.is_rough && self.dice.chance(200);
                    let after = if is_slow { self.dice.between(1_000, 9_000) } else { self.dice.between(0, 20) };
                    self.at(after, Event::Made { node, life, order, gid, lens });
                }
                member::Output::Free { slots } => {
                    #[cfg(test)]
                    if self.sabotage == Sabotage::FreeNothing {
                        continue;
                    }
                    let freed = slots.iter().all(|slot| process.lender.extents.remove(slot).is_some());
                    check(freed, || format!("{} frees {slots:?}, of which it has not all", name(node)))?;
                }
                member::Output::NewEpoch { node: id, epoch, .. } => self.begin_epoch(node, life, id, epoch),
                member::Output::AskDone { request, result, .. } => self.on_answered(node, request, result)?,
                member::Output::Joined { node: id, epoch } => self.note(format!("{} is {id} in {epoch}", name(node))),
                member::Output::NodeLost { .. } => self.count("nodes told that a node is lost"),
                member::Output::Refused(_) => self.count("joins refused"),
                member::Output::Home(_) => {}
            }
        }
        self.schedule_node(node);
        Ok(())
    }

    /// A node begins an epoch: grants of the old one fail from here on.
    fn begin_epoch(&mut self, node: usize, life: u64, id: NodeId, epoch: Epoch) {
        self.count("epochs begun");
        let Some(process) = self.hosts[node].process.as_mut() else { return };
        #[cfg(test)]
        if self.sabotage == Sabotage::KeepGrants {
            process.lender.epoch = epoch;
            return self.at(0, Event::Regranted { node, life, epoch });
        }
        for extent in process.lender.regrant(epoch) {
            self.checks.on_granted(extent.read, id, epoch, extent.gid);
            self.checks.on_granted(extent.write, id, epoch, extent.gid);
        }
        let after = self.dice.pick(&[0, 0, 5, 100]);
        self.at(after, Event::Regranted { node, life, epoch });
    }

    fn schedule_node(&mut self, node: usize) {
        let Some(process) = self.hosts[node].process.as_mut() else { return };
        let life = process.life;
        if let Some(due) = due(process.member.next_deadline(), &mut process.tick_at, self.now_ms) {
            self.at(due, Event::TickNode { node, life });
        }
    }

    /// Acts on all outputs of the coordinator, in order; its process may die between any two.
    pub fn drain_home(&mut self) -> Check {
        loop {
            let Some(home) = self.home.as_mut() else { return Ok(()) };
            let Some(output) = home.coordinator.poll() else { break };
            if self.is_rough && self.dice.chance(3) {
                self.crash_home_between();
                return Ok(());
            }
            match output {
                coordinator::Output::Journal(record) => self.on_journal(record)?,
                coordinator::Output::Send(peer, message) => {
                    self.judge_message(&message)?;
                    self.transmit(peer, Event::ToNode { peer, message });
                }
                coordinator::Output::NodeLost { node, epoch, .. } => {
                    self.checks.on_node_lost(node, epoch);
                    self.programs.on_node_lost(node);
                    self.note(format!("{node} is lost in {epoch}"));
                    self.count("nodes lost");
                }
                coordinator::Output::JobRankGone { job, rank, ranks, reason } => {
                    let home = self.home.as_mut().expect("just seen");
                    home.jobs.on_rank_gone(job, rank, ranks, &reason);
                    self.drain_jobs()?;
                }
            }
        }
        self.compact_sometimes();
        self.schedule_home();
        Ok(())
    }

    fn crash_home_between(&mut self) {
        self.count("coordinator deaths between two outputs");
        self.crash(0);
        let after = self.dice.between(50, 8_000);
        self.at(after, Event::Restart { node: 0 });
    }

    /// A record is durable.
    fn on_journal(&mut self, record: Record) -> Check {
        #[cfg(test)]
        if self.sabotage == Sabotage::JournalLate && matches!(record, Record::Created { .. }) && self.dice.chance(5000) {
            return Ok(());
        }
        self.checks.on_record(&record)?;
        self.journal.push(record);
        self.count("records");
        Ok(())
    }

    /// Sometimes the journal is replaced by its snapshot.
    fn compact_sometimes(&mut self) {
        if let Some(home) = self.home.as_ref()
            && self.is_rough
            && self.dice.chance(20)
        {
            self.journal = home.coordinator.snapshot();
            self.count("journals compacted");
        }
    }

    fn judge_message(&self, message: &ToNode) -> Check {
        match message {
            ToNode::Welcome { node, epoch, .. } => self.checks.on_welcome(*node, *epoch),
            ToNode::Reply { result: Ok(Answer::Region(view)), .. } => self.checks.on_view(view),
            _ => Ok(()),
        }
    }

    fn schedule_home(&mut self) {
        let Some(home) = self.home.as_mut() else { return };
        let life = home.life;
        if let Some(due) = due(home.coordinator.next_deadline(), &mut home.tick_at, self.now_ms) {
            self.at(due, Event::TickHome { life });
        }
    }

    /// After every event: the coordinator's state against the model.
    fn judge(&self) -> Check {
        let Some(home) = &self.home else { return Ok(()) };
        let holds = |node: NodeId, life: Incarnation, slot, gid, len| {
            let process = self.hosts.iter().filter_map(|host| host.process.as_ref());
            let mut of_life = process.filter(|process| process.incarnation == life && self.is_node(process, node));
            of_life.all(|process| process.lender.extents.get(&slot).is_some_and(|extent| (extent.gid, extent.len) == (gid, len)))
        };
        self.checks.on_settled(&home.coordinator, QUOTA, holds)?;
        self.judge_bounds()
    }

    fn is_node(&self, process: &Process, node: NodeId) -> bool {
        process.member.identity().is_none_or(|(id, _)| id == node)
    }

    /// At the end: nothing is left over.
    fn judge_rest(&self) -> Check {
        self.programs.judge_rest()?;
        let home = self.home.as_ref().ok_or("the coordinator is not back")?;
        check(home.coordinator.ask_count() <= 64, || format!("{} requests are remembered", home.coordinator.ask_count()))?;
        let replayed: Vec<_> = self.replayed().regions().cloned().collect();
        let live: Vec<_> = home.coordinator.regions().cloned().collect();
        check(replayed == live, || "the journal restores other regions".to_owned())?;
        for (node, host) in self.hosts.iter().enumerate() {
            let process = host.process.as_ref().ok_or_else(|| format!("{} is not back", name(node)))?;
            check(process.member.phase() == member::Phase::Member, || format!("{} is no member", name(node)))?;
            check(process.member.ask_count() == 0, || format!("{} has requests without an answer", name(node)))?;
            let id = process.member.identity().ok_or_else(|| format!("{} has no number", name(node)))?.0;
            let holds: std::collections::BTreeSet<_> =
                process.lender.extents.values().map(|extent| (extent.slot, extent.gid)).collect();
            let should = self.checks.extents_on(id, process.incarnation);
            check(holds == should, || format!("{} holds {holds:?}, and regions have {should:?}", name(node)))?;
        }
        Ok(())
    }

    fn replayed(&self) -> Coordinator {
        Coordinator::restore(coordinator::Settings::new(&name(0)), self.journal.iter().cloned(), self.now_ms)
    }
}

/// When to tick, counted from now, if that is sooner than what is scheduled already.
fn due(deadline: Option<u64>, tick_at: &mut Option<u64>, now_ms: u64) -> Option<u64> {
    let at = deadline?.max(now_ms + 1);
    if tick_at.is_some_and(|scheduled| scheduled <= at && scheduled > now_ms) {
        return None;
    }
    *tick_at = Some(at);
    Some(at - now_ms)
}
