//! A sample as JSON, for programs: counts since the nodes' start, from which a reader makes rates.

use super::sample::{LockSample, NodeSample, ProgramSample, RegionSample, RunSample, Sample, Traffic};
use crate::faces::FaceSum;
use crate::region::run_value;
use hanare::ProgramFace;
use hanare_protocol::lock::Mode;
use serde_json::{Value, json};

/// All of it.
pub fn of(sample: &Sample) -> Value {
    let mut value = json!({
        "nodes": sample.nodes.iter().map(node).collect::<Vec<_>>(),
        "regions": sample.regions.iter().map(region).collect::<Vec<_>>(),
        "programs": sample.programs.iter().map(program).collect::<Vec<_>>(),
        "locks": sample.locks.iter().map(lock).collect::<Vec<_>>(),
        "lock_count": sample.lock_count,
        "to_and_fro": sample.runs.iter().map(run).collect::<Vec<_>>(),
        "faces": sample.faces.iter().map(|(face, sum)| of_face(*face, sum)).collect::<Vec<_>>(),
    });
    if let Some(map) = &sample.map {
        value["map"] = json!({ "region": map.region, "pages_each": map.pages_each, "cells": map.cells });
    }
    value
}

fn with_traffic(mut value: Value, traffic: Traffic) -> Value {
    let Traffic { faults, fetched, hops, invalidated, evicted } = traffic;
    let counts = [("faults", faults), ("fetched", fetched), ("hops", hops), ("invalidated", invalidated), ("evicted", evicted)];
    counts.into_iter().for_each(|(name, count)| value[name] = count.into());
    value
}

fn node(node: &NodeSample) -> Value {
    let memory = &node.status.memory;
    let value = json!({
        "node": node.status.node.0, "name": node.status.name, "alive": node.status.alive, "answers": node.answers,
        "lent": memory.lent, "lent_max": memory.lent_max, "leaving": node.status.leaving, "used": memory.used, "clients": memory.clients,
        "commands": node.commands, "bytes": node.bytes, "refused": node.refused,
    });
    with_traffic(value, node.traffic)
}

fn region(region: &RegionSample) -> Value {
    let value = json!({
        "name": region.stat.name, "gid": region.stat.gid.0, "size": region.stat.len, "owner": region.stat.owner,
        "programs": region.programs, "hosts": region.hosts, "frames": region.frames, "returns": region.returns,
    });
    with_traffic(value, region.traffic)
}

fn program(program: &ProgramSample) -> Value {
    let job = program.stat.job.map(|job| json!({ "job": format!("{:032x}", job.job.0), "rank": job.rank.0, "ranks": job.ranks }));
    json!({
        "client": program.stat.client.0, "node": program.node.0, "process": program.stat.process, "user": program.stat.user, "job": job,
    })
}

fn lock(lock: &LockSample) -> Value {
    let (held, waiting) = lock.stat.counts;
    let clients = |clients: &[hanare::ClientId]| clients.iter().map(|client| client.0).collect::<Vec<u64>>();
    json!({
        "name": lock.stat.name, "exclusive": lock.stat.mode == Mode::Exclusive, "held": held, "waiting": waiting,
        "holders": clients(&lock.stat.holders), "waiters": clients(&lock.stat.waiters),
    })
}

fn of_face(face: ProgramFace, sum: &FaceSum) -> Value {
    let FaceSum { commands, bytes, micros, refused } = sum;
    json!({ "face": face.name(), "commands": commands, "bytes": bytes, "seconds": *micros as f64 / 1e6, "refused": refused })
}

fn run(run: &RunSample) -> Value {
    let mut value = run_value(&run.run);
    value["region"] = run.region.as_str().into();
    value["home"] = run.home.0.into();
    value
}
