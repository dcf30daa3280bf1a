//! The text of messages, as `ovs-ofctl` prints it, in one line each. What is not here prints its fields by name.

mod fields;
mod flows;

use std::fmt;

use crate::message::{ErrorMessage, Features, Frame, Message, PortStatus, RoleMessage};
use crate::meter::{Bucket, GroupMod, MeterBand, MeterMod};
use crate::numbers::{BufferId, GroupId, GroupType, MeterFlags, MeterId, PortNo};
use crate::stats::{Counter, GroupDesc, GroupStats, MeterConfig, Port};

pub(crate) use flows::{
    action, aggregate, flow_mod, flow_removed, flow_stats, flow_stats_request, instruction, packet_in,
    packet_out,
};

type Out<'a, 'b> = &'a mut fmt::Formatter<'b>;

impl fmt::Display for Frame {
    fn fmt(&self, f: Out<'_, '_>) -> fmt::Result {
        match &self.message {
            Message::MultipartRequest(part) => write!(f, "OFPST_{} request", part.body.name())?,
            Message::MultipartReply(part) => write!(f, "OFPST_{} reply", part.body.name())?,
            other => f.write_str(other.name())?,
        }
        write!(f, " (OF1.3) (xid={:#x}):", self.xid)?;
        let body = Body(&self.message).to_string();
        if body.is_empty() { Ok(()) } else { write!(f, " {body}") }
    }
}

/// The body of a message.
struct Body<'a>(&'a Message);

impl fmt::Display for Body<'_> {
    fn fmt(&self, f: Out<'_, '_>) -> fmt::Result {
        self.0.body_text(f)
    }
}

/// Seconds; whole milliseconds in three digits, else as many as there are: `12s`, `12.500s`, `12.500001s`.
fn duration(f: Out<'_, '_>, sec: u32, nsec: u32) -> fmt::Result {
    match nsec {
        0 => write!(f, "{sec}s"),
        n if n.is_multiple_of(1_000_000) => write!(f, "{sec}.{:03}s", n / 1_000_000),
        n => write!(f, "{sec}.{}s", format!("{n:09}").trim_end_matches('0')),
    }
}

/// The text after a `=`, unless it is that of no buffer.
fn buffer(f: Out<'_, '_>, id: BufferId, before: &str) -> fmt::Result {
    if id == BufferId::NONE { Ok(()) } else { write!(f, "{before}{:#x}", id.0) }
}

pub(crate) fn error(e: &ErrorMessage, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "{}", e.code)?;
    match Frame::decode(&e.data.0) {
        _ if e.code.kind == crate::error::hello_failed::INCOMPATIBLE.kind => {
            write!(f, " {:?}", String::from_utf8_lossy(&e.data.0))
        }
        Ok(frame) => write!(f, " of {frame}"),
        Err(_) if e.data.0.is_empty() => Ok(()),
        Err(_) => write!(f, " {:?}", e.data),
    }
}

pub(crate) fn features(s: &Features, f: Out<'_, '_>) -> fmt::Result {
    write!(
        f,
        "dpid:{:016x} n_tables:{}, n_buffers:{}, auxiliary_id:{} capabilities: {}",
        s.datapath, s.n_tables, s.n_buffers, s.auxiliary, s.capabilities
    )
}

pub(crate) fn port(p: &Port, f: Out<'_, '_>) -> fmt::Result {
    write!(
        f,
        "{}({}): addr:{} config:{} state:{} current:{} advertised:{} supported:{} peer:{} speed:{} max:{}",
        p.port,
        p.name,
        p.hw_addr,
        p.config,
        p.state,
        p.current,
        p.advertised,
        p.supported,
        p.peer,
        p.current_speed,
        p.max_speed
    )
}

pub(crate) fn port_status(s: &PortStatus, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "{}: {}", s.reason, s.port)
}

pub(crate) fn role(r: &RoleMessage, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "role={} generation_id={}", r.role, r.generation)
}

pub(crate) fn group_mod(g: &GroupMod, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "{} group_id={},type={}", g.command, g.group, g.kind)?;
    buckets(g.kind, &g.buckets, f)
}

pub(crate) fn group_desc(g: &GroupDesc, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "group_id={},type={}", g.group, g.kind)?;
    buckets(g.kind, &g.buckets, f)
}

fn buckets(kind: GroupType, buckets: &[Bucket], f: Out<'_, '_>) -> fmt::Result {
    buckets.iter().try_for_each(|b| {
        f.write_str(",")?;
        bucket_of(kind, b, f)
    })
}

pub(crate) fn bucket(b: &Bucket, f: Out<'_, '_>) -> fmt::Result {
    bucket_of(GroupType::All, b, f)
}

/// A bucket, with its weight if that is not the one that all buckets have.
fn bucket_of(kind: GroupType, b: &Bucket, f: Out<'_, '_>) -> fmt::Result {
    f.write_str("bucket=")?;
    if b.weight != u16::from(kind == GroupType::Select) {
        write!(f, "weight:{},", b.weight)?;
    }
    if b.watch_port != PortNo::ANY {
        write!(f, "watch_port:{},", b.watch_port)?;
    }
    if b.watch_group != GroupId::ANY {
        write!(f, "watch_group:{},", b.watch_group)?;
    }
    f.write_str("actions=")?;
    flows::actions(&b.actions, f)
}

pub(crate) fn group_stats(g: &GroupStats, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "group_id={},duration=", g.group)?;
    duration(f, g.duration_sec, g.duration_nsec)?;
    write!(f, ",ref_count={},packet_count={},byte_count={}", g.ref_count, g.packet_count, g.byte_count)?;
    g.buckets.iter().enumerate().try_for_each(|(i, Counter { packet_count, byte_count })| {
        write!(f, ",bucket{i}:packet_count={packet_count},byte_count={byte_count}")
    })
}

pub(crate) fn meter_mod(m: &MeterMod, f: Out<'_, '_>) -> fmt::Result {
    write!(f, "{} ", m.command)?;
    meter(m.meter, m.flags, &m.bands, f)
}

pub(crate) fn meter_config(m: &MeterConfig, f: Out<'_, '_>) -> fmt::Result {
    meter(m.meter, m.flags, &m.bands, f)
}

fn meter(id: MeterId, flags: MeterFlags, bands: &[MeterBand], f: Out<'_, '_>) -> fmt::Result {
    write!(f, "meter={id} {flags} bands=")?;
    bands.iter().try_for_each(|b| write!(f, " {b}"))
}

pub(crate) fn band(b: &MeterBand, f: Out<'_, '_>) -> fmt::Result {
    let (rate, burst_size) = match b {
        MeterBand::Drop(b) => (b.rate, b.burst_size),
        MeterBand::DscpRemark(b) => (b.rate, b.burst_size),
        MeterBand::Experimenter(b) => (b.rate, b.burst_size),
    };
    write!(f, "type={} rate={rate}", b.name())?;
    if burst_size != 0 {
        write!(f, " burst_size={burst_size}")?;
    }
    match b {
        MeterBand::Drop(_) => Ok(()),
        MeterBand::DscpRemark(b) => write!(f, " prec_level={}", b.prec_level),
        MeterBand::Experimenter(b) => write!(f, " {}", b.body),
    }
}
