use super::flow::{Flow, Kinds, Settings};
use super::mapping::REPLY_ANNO;
use super::rewriter::Rewriter;
use super::shift::SHIFTED;
use crate::args::FromArg;
use crate::fields::{ipv4, ports, tcp};
use crate::prelude::*;

element! {
    /// Rewrites `PORT` commands of FTP (RFC 959), so that active transfers pass an address translation.
    ///
    /// Packets are those that FTP clients send to servers, on their path to `CONTROL_REWRITER`, a `TCPRewriter` or
    /// `IPRewriter`. When a segment starts with a `PORT` command, and its connection has a mapping already, a mapping
    /// is made in `DATA_REWRITER` as if a packet from the address and port in the command to the server's data port
    /// (one less than its control port) had come to `DATA_REWRITER_INPUT`. The new address and port are written into the
    /// command, its checksums are updated, and `CONTROL_REWRITER` shifts the sequence numbers that follow. Both may be
    /// the same element.
    ///
    /// The command has to be complete in its segment. All other packets pass unchanged, also commands without a
    /// mapping. If there is no space for the data connection's mapping, or for the longer command in the packet, the
    /// packet is dropped (`Full`, `NoSpace`): the client sends it again. The `net` mark has to stand on a checked IPv4
    /// header.
    FTPPortMapper: "1/1", "a/a";
    example "Idle -> CheckIPHeader -> FTPPortMapper(rw, rw, 0)
            -> rw :: TCPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop) -> Discard;
        Idle -> CheckIPHeader -> [1] rw [1] -> Discard;";
    params {
        /// Name of the rewriter of control connections.
        pos control_rewriter: FlowRewriter,
        /// Name of the rewriter of data connections.
        pos data_rewriter: FlowRewriter,
        /// Its input whose specification data connections get.
        pos data_rewriter_input: u32,
    }
    resolve |e, peers| {
        let mut errors = Vec::new();
        errors.extend(e.control_rewriter.resolve(peers).err().map(|e| format!("CONTROL_REWRITER: {e}")));
        errors.extend(e.data_rewriter.resolve(peers).err().map(|e| format!("DATA_REWRITER: {e}")));
        if let Some(control) = &e.control_rewriter.flows && control.kind == Kinds::Any {
            errors.push("CONTROL_REWRITER: a UDPRewriter does not shift sequence numbers: name a TCPRewriter".into());
        }
        if let Some(data) = &e.data_rewriter.flows && e.data_rewriter_input as usize >= data.table.inputs.0.len() {
            errors.push(format!(
                "DATA_REWRITER_INPUT out of range: {} has {} inputs", data.table.name, data.table.inputs.0.len()
            ));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    };
}

/// A rewriter of flows by name.
#[derive(Debug)]
pub struct FlowRewriter {
    name: String,
    flows: Option<Settings>,
}

impl FromArg for FlowRewriter {
    const SYNTAX: &'static str = "rewriter";

    fn from_arg(text: &str) -> Result<FlowRewriter, String> {
        Ok(FlowRewriter { name: text.trim().to_owned(), flows: None })
    }
}

impl FlowRewriter {
    fn resolve(&mut self, peers: &Peers<'_>) -> Result<(), String> {
        match Rewriter::find(&self.name, peers)? {
            // It reports itself what is wrong with it.
            None => {}
            Some(Rewriter::Flows(flows)) => self.flows = Some(flows),
            Some(_) => {
                return Err(format!(
                    "'{}' does not rewrite ports: name a TCPRewriter or IPRewriter",
                    self.name
                ));
            }
        }
        Ok(())
    }
}

/// Most bytes behind the command's argument that are moved.
const MOST_MOVED: u32 = 2048;
/// Most bytes of an argument, with spaces before it.
const MOST_READ: u32 = 40;

/// A segment of a control connection. Offsets are from the TCP header on.
#[derive(Clone, Copy)]
struct Segment {
    flow: Flow,
    /// Where the payload starts, and where it ends.
    start: V,
    end: V,
}

/// The argument of a command: where it starts and ends, and its six bytes.
#[derive(Clone, Copy)]
struct Argument {
    start: V,
    end: V,
    value: V,
}

fn program(e: &FTPPortMapper, b: &mut Builder) {
    let (Some(control), Some(data)) = (&e.control_rewriter.flows, &e.data_rewriter.flows) else {
        return b.input(0, |b| b.emit(0));
    };
    let control_tables = control.declare(b, "control_");
    let own = if control.table.name == data.table.name { None } else { Some(data.declare(b, "data_")) };
    let data_tables = own.as_ref().unwrap_or(&control_tables);
    b.input(0, |b| {
        let segment = segment(b, control);
        let argument = argument(b, segment);
        let entry = b.find(control_tables.mappings.map, &segment.flow.key(), |b| b.emit(0));

        // The server connects to the client, so that its packets are the replies.
        let src = b.shr(argument.value, 16);
        let flow = Flow {
            proto: b.constant(W8, if data.kind == Kinds::Any { 0 } else { proto::TCP }),
            src: b.resize(W32, src),
            sport: b.resize(W16, argument.value),
            dport: b.sub(segment.flow.dport, 1),
            ..segment.flow
        };
        let found = data.create(b, data_tables, e.data_rewriter_input as usize, flow);
        if let (Some(_), Some(_)) = (control.table.reply_anno, data.table.reply_anno) {
            let anno = b.get(entry, REPLY_ANNO.0);
            b.set(found, REPLY_ANNO.0, anno);
            let new = flow.rewritten(b, found);
            b.lookup(
                data_tables.mappings.map,
                &new.reversed().key(),
                |b, reply| b.set(reply, REPLY_ANNO.0, anno),
                |_| {},
            );
        }
        let (new_src, new_port) = (b.get(found, "new_src"), b.get(found, "new_sport"));
        let value = b.resize(W64, new_src);
        let value = b.shl(value, 16);
        let port = b.resize(W64, new_port);
        let value = b.or(value, port);

        let change = write(b, segment, argument, value);
        finish(b, segment, change);

        let len = b.sub(segment.end, segment.start);
        let seq = tcp::SEQ.load(b);
        let from = b.add(seq, len);
        if let Some(shifts) = &control_tables.shifts {
            shifts.record(b, segment.flow, from, change, |b| b.drop(Reason::FULL));
            let state = b.get(entry, "state");
            let state = b.or(state, SHIFTED);
            b.set(entry, "state", state);
            let new = segment.flow.rewritten(b, entry);
            b.lookup(
                control_tables.mappings.map,
                &new.reversed().key(),
                |b, reply| b.set(reply, "state", state),
                |_| {},
            );
        }
        b.emit(0);
    });
}

/// Goes on with a segment whose payload starts with `PORT `, with its TCP header marked; sends all others on.
fn segment(b: &mut Builder, control: &Settings) -> Segment {
    let pass = |b: &mut Builder| b.emit(0);
    b.require_or(Layer::Net, 20, pass);
    let proto = ipv4::PROTOCOL.load(b);
    let other = b.ne(proto, proto::TCP);
    b.when(other, pass);
    let fragment = ipv4::FRAGMENT.load(b);
    let part = b.and(fragment, 0x3fff);
    let part = b.ne(part, 0);
    b.when(part, pass);
    let header_len = ip_header_len(b);
    b.require_or(Layer::Net, header_len, pass);
    b.set_mark(Layer::Transport, Layer::Net, header_len);
    b.require_or(Layer::Transport, 20, pass);
    let words = tcp::DATA_OFFSET.load(b);
    let words = b.shr(words, 4);
    let start = b.shl(words, 2);
    let start = b.resize(W32, start);
    let ip_len = ipv4::LENGTH.load(b);
    let ip_len = b.resize(W32, ip_len);
    let end = b.sub(ip_len, header_len);
    let least = b.add(start, 5);
    let short = b.gt(least, end);
    let wrong = b.lt(ip_len, header_len);
    let short = b.or(short, wrong);
    b.when(short, pass);
    b.require_or(Layer::Transport, end, pass);
    b.require_or(Layer::Transport, start, pass);
    b.set_mark(Layer::Cursor, Layer::Transport, start);
    b.require_or(Layer::Cursor, 5, pass);
    let word = b.load(W32, Layer::Cursor, 0);
    let upper = b.and(word, 0xdfdf_dfdf_u32);
    let space = b.load(W8, Layer::Cursor, 4);
    let (other, no_space) = (b.ne(upper, u32::from_be_bytes(*b"PORT")), b.ne(space, b' '));
    let other = b.or(other, no_space);
    b.when(other, pass);
    let in_table = if control.kind == Kinds::Any { b.constant(W8, 0_u8) } else { proto };
    let flow = Flow {
        proto: in_table,
        packet_proto: proto,
        src: ipv4::SRC.load(b),
        sport: ports::SRC.load(b),
        dst: ipv4::DST.load(b),
        dport: ports::DST.load(b),
    };
    Segment { flow, start, end }
}

/// Reads six numbers with commas up to the end of the line, or sends the packet on.
fn argument(b: &mut Builder, segment: Segment) -> Argument {
    let first = b.add(segment.start, 5);
    let zero = b.constant(W32, 0_u32);
    let none = b.constant(W64, 0_u64);
    // Place, start of the argument (0 before it), commas so far, the number, and the numbers before it.
    let after = b.repeat(MOST_READ, &[first, zero, zero, zero, none], |b, round, vars| {
        let [pos, start, commas, number, value] = [vars[0], vars[1], vars[2], vars[3], vars[4]];
        let end = b.ge(pos, segment.end);
        b.when(end, |b| b.emit(0));
        b.require_or(Layer::Transport, pos, |b| b.emit(0));
        b.set_mark(Layer::Cursor, Layer::Transport, pos);
        b.require_or(Layer::Cursor, 1, |b| b.emit(0));
        let byte = b.load(W8, Layer::Cursor, 0);
        let next = b.add(pos, 1);
        let before = b.eq(start, 0);
        let space = b.eq(byte, b' ');
        let skip = b.and(before, space);
        b.when(skip, |b| round.next(b, &[next, start, commas, number, value]));
        let start = b.select(before, pos, start);
        let digit = b.sub(byte, b'0');
        let is_digit = b.lt(digit, 10);
        b.when(is_digit, |b| {
            let digit = b.resize(W32, digit);
            let ten = b.mul(number, 10);
            let number = b.add(ten, digit);
            let large = b.gt(number, 255);
            b.when(large, |b| b.emit(0));
            round.next(b, &[next, start, commas, number, value]);
        });
        let long = b.resize(W64, number);
        let shifted = b.shl(value, 8);
        let value = b.or(shifted, long);
        b.switch(byte, &[b','.into(), b'\r'.into(), b'\n'.into()], |b, case| match case {
            Some(0) => {
                let more = b.lt(commas, 5);
                b.unless(more, |b| b.emit(0));
                let commas = b.add(commas, 1);
                round.next(b, &[next, start, commas, zero, value]);
            }
            Some(_) => round.leave(b, &[pos, start, commas, number, value]),
            None => b.emit(0),
        });
    });
    let all = b.eq(after[2], 5);
    b.unless(all, |b| b.emit(0));
    Argument { start: after[1], end: after[0], value: after[4] }
}

/// Puts six other numbers into the place of the argument; gives by how much the segment has grown (it wraps).
fn write(b: &mut Builder, segment: Segment, argument: Argument, value: V) -> V {
    let zero = b.constant(W32, 0_u32);
    let old = b.sub(argument.end, argument.start);
    let mut new = b.constant(W32, 5_u32);
    for i in 0..6 {
        let [_, hundreds, tens, _] = digits(b, value, 8 * (5 - i));
        let one = b.constant(W32, 1_u32);
        for more in [hundreds, tens] {
            let more = b.resize(W32, more);
            new = b.add(new, more);
        }
        new = b.add(new, one);
    }
    let change = b.sub(new, old);
    let rest = b.sub(segment.end, argument.end);
    let much = b.gt(rest, MOST_MOVED);
    b.when(much, |b| b.emit(0));

    // What follows the packet (padding of a frame) goes.
    let to_transport = b.distance(Layer::Data, Layer::Transport);
    let whole = b.add(to_transport, segment.end);
    b.trim(whole);
    let grows = b.gt(new, old);
    b.when(grows, |b| b.put(change));
    b.repeat(MOST_MOVED + 1, &[zero], |b, round, vars| {
        let i = vars[0];
        let all = b.ge(i, rest);
        b.when(all, |b| round.leave(b, &[i]));
        // The last first if it grows, so that nothing is overwritten before it has moved.
        let next = b.add(i, 1);
        let from_end = b.sub(rest, next);
        let which = b.select(grows, from_end, i);
        let from = b.add(argument.end, which);
        go_to(b, from);
        let byte = b.load(W8, Layer::Cursor, 0);
        let to = b.add(from, change);
        go_to(b, to);
        b.store(Layer::Cursor, 0, byte);
        round.next(b, &[next]);
    });
    let after = b.add(whole, change);
    b.trim(after);

    let mut at = argument.start;
    for i in 0..6 {
        if i > 0 {
            put_byte(b, at, b',');
            at = b.add(at, 1);
        }
        let [h, hundreds, tens, t] = digits(b, value, 8 * (5 - i));
        // A leading zero is overwritten by the digit that follows.
        for (digit, counts) in [(h, hundreds), (t, tens)] {
            put_digit(b, at, digit);
            let one = b.resize(W32, counts);
            at = b.add(at, one);
        }
        let ones = ones(b, value, 8 * (5 - i));
        put_digit(b, at, ones);
        at = b.add(at, 1);
    }
    change
}

/// The byte of a value at that bit, 32 bits wide.
fn byte_of(b: &mut Builder, value: V, shift: u8) -> V {
    let v = b.shr(value, shift);
    let v = b.and(v, 0xff);
    b.resize(W32, v)
}

/// Of a byte: the digit of hundreds, whether it is written, whether that of tens is, and that.
fn digits(b: &mut Builder, value: V, shift: u8) -> [V; 4] {
    let v = byte_of(b, value, shift);
    // Division by 100 and 10, exact below 256 and 100.
    let h = b.mul(v, 41);
    let h = b.shr(h, 12);
    let rest = b.rem(v, 100);
    let t = b.mul(rest, 205);
    let t = b.shr(t, 11);
    [h, b.ge(v, 100), b.ge(v, 10), t]
}

fn ones(b: &mut Builder, value: V, shift: u8) -> V {
    let v = byte_of(b, value, shift);
    b.rem(v, 10)
}

/// Marks a byte of the segment, of which the offset is within it.
fn go_to(b: &mut Builder, at: V) {
    b.require(Layer::Transport, at, Reason::TRUNCATED);
    b.set_mark(Layer::Cursor, Layer::Transport, at);
    b.require(Layer::Cursor, 1, Reason::TRUNCATED);
}

fn put_byte(b: &mut Builder, at: V, byte: u8) {
    go_to(b, at);
    b.store_const(W8, Layer::Cursor, 0, byte);
}

fn put_digit(b: &mut Builder, at: V, digit: V) {
    go_to(b, at);
    let digit = b.resize(W8, digit);
    let byte = b.add(digit, b'0');
    b.store(Layer::Cursor, 0, byte);
}

/// Updates lengths and checksums after the segment has grown.
fn finish(b: &mut Builder, segment: Segment, change: V) {
    b.require(Layer::Net, 20, Reason::TRUNCATED);
    let old = ipv4::LENGTH.load(b);
    let change = b.resize(W16, change);
    let new = b.add(old, change);
    ipv4::LENGTH.store(b, new);
    update_ip_checksum(b, &[old], &[new]);
    let len = b.rest(Layer::Transport);
    b.require(Layer::Transport, len, Reason::TRUNCATED);
    b.require(Layer::Transport, 20, Reason::TRUNCATED);
    let state = b.load_meta(MetaField::Checksum);
    let partial = b.eq(state, weir_packet::Checksum::Partial as u8);
    b.if_else(
        partial,
        |b| {
            // The sum of the pseudo header so far.
            let field = tcp::CHECKSUM.load(b);
            let length = checksum_change(b, &[old], &[new]);
            let sum = b.sum16(field, length);
            tcp::CHECKSUM.store(b, sum);
        },
        |b| {
            tcp::CHECKSUM.store_const(b, 0_u16);
            b.require(Layer::Transport, len, Reason::TRUNCATED);
            let mut sum = b.checksum(Layer::Transport, 0, len);
            let words = [halves(b, segment.flow.src), halves(b, segment.flow.dst)].concat();
            let len = b.resize(W16, len);
            let proto = b.resize(W16, segment.flow.packet_proto);
            for word in words.into_iter().chain([len, proto]) {
                sum = b.sum16(sum, word);
            }
            let field = b.not(sum);
            b.require(Layer::Transport, 20, Reason::TRUNCATED);
            tcp::CHECKSUM.store(b, field);
        },
    );
    b.require(Layer::Transport, 20, Reason::TRUNCATED);
}

#[cfg(test)]
mod tests;
