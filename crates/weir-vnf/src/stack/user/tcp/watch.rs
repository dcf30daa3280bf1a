//! What becomes of a connection when it has sent something, when its peer has, and when a timer fires.

use nix::errno::Errno;
use smoltcp::socket::tcp::State;
use weir_net::{Tcp as View, proto};
use weir_packet::Gso;

use super::super::wheel::Micros;
use super::super::{Outcome, Ready, Tuple, wire};
use super::replies::is_behind;
use super::{Tcp, is_beginning};

/// How long a peer may leave unanswered what it was sent.
const UNANSWERED: Micros = 120_000_000;
/// How long the peer of a connection that we closed may go without closing its side.
const HALF_CLOSED: Micros = 60_000_000;

impl Tcp {
    /// Gives what smoltcp sent for a connection its real sequence numbers, and to whoever sends it.
    pub(super) fn finish(&mut self, index: usize, out: &mut Outcome) {
        let mut sent = self.machines.sent();
        let connection = &mut self.connections[index];
        let Tuple { local, remote } = connection.tuple;
        for (mut packet, cut) in sent.drain(..) {
            let at = wire::ETHERNET + if local.is_ipv4() { 20 } else { 40 };
            let Ok(mut view) = View::new(&mut packet.bytes_mut()[at..]) else { continue };
            if let Some(first) = connection.first.take() {
                connection.shift = first.wrapping_sub(view.seq());
            }
            let mut seq = view.seq().wrapping_add(connection.shift);
            let flags = view.flags();
            let marks = flags & (View::SYN | View::FIN);
            let used = view.payload().len() as u32 + u32::from(marks != 0);
            if used == 0 && flags & View::ACK != 0 {
                // smoltcp gives the number that it sends again from, if it does: the peer would take that for an old segment, and not
                // read what it acknowledges. If both sides did so, neither would ever send anything new.
                seq = connection.last.0;
            }
            view.set_seq(seq);
            let next = seq.wrapping_add(used);
            if flags & View::SYN != 0 || is_behind(next, connection.last.0) {
                connection.last.0 = next;
            }
            (connection.last.1, connection.window) = (view.ack(), view.window());
            wire::partial(&mut packet, local.ip(), remote.ip(), proto::TCP);
            if let Some(cut) = cut {
                (packet.gso, packet.gso_size) = (Gso::TcpV4 as u8, cut.get());
            }
            out.packets.push((packet, remote.ip()));
        }
        self.machines.reuse(sent);
    }

    /// Sees what has changed of a connection; `heard`: because its peer sent something.
    pub(super) fn review(&mut self, index: usize, now: Micros, heard: bool, out: &mut Outcome) {
        let connection = &mut self.connections[index];
        let socket = connection.machine.socket();
        let (before, state) = (connection.state, socket.state());
        let gone = matches!(state, State::Closed | State::Listen) && socket.local_endpoint().is_none();
        connection.state = state;
        if gone && before != state && !matches!(before, State::LastAck | State::TimeWait | State::Closing) {
            let refused = before == State::SynSent;
            let why = if refused { Errno::ECONNREFUSED } else { Errno::ECONNRESET };
            connection.error.get_or_insert(why);
        }
        let (readable, acked) = (socket.recv_queue(), socket.send_queue());
        let ended = matches!(state, State::CloseWait | State::Closing | State::LastAck | State::TimeWait);
        let space = socket.send_capacity() - acked;
        let writable = (is_beginning(before) && !is_beginning(state))
            || (connection.wants_to_write && socket.may_send() && space >= socket.send_capacity() / 4);
        // Nobody will read it: the peer is to know.
        if connection.closed && readable > 0 && state != State::Closed {
            socket.abort();
            return self.stir(index);
        }
        let outstanding = match state {
            State::SynSent | State::SynReceived | State::FinWait1 | State::Closing | State::LastAck => true,
            State::FinWait2 => connection.closed,
            _ => acked > 0,
        };
        // A peer that is there but takes nothing holds only connections that somebody wants.
        let moved = connection.since.is_none_or(|(_, left)| left != acked) || (heard && !connection.closed);
        connection.since = outstanding.then_some(match connection.since {
            Some(since) if !moved => since,
            _ => (now, acked),
        });
        if let Some(owner) = connection.owner {
            let news = (readable, ended) != connection.said && (readable > connection.said.0 || ended);
            connection.said = (readable, ended);
            let failed = connection.error.is_some();
            if news || writable || failed {
                connection.wants_to_write &= !writable;
                out.ready.push_back(Ready::Connection {
                    owner,
                    readable: news || failed,
                    writable: writable || failed,
                });
            }
        } else if before == State::SynReceived
            && state != before
            && !connection.closed
            && let Some(server) = self.server(self.connections[index].tuple.local)
        {
            out.ready.push_back(Ready::Server(self.servers[server].id));
        }
        self.end_or_wait(index, gone, heard, now, out);
    }

    /// Takes a connection away that is over, or sees to it that it is looked at when something is due.
    fn end_or_wait(&mut self, index: usize, gone: bool, heard: bool, now: Micros, out: &mut Outcome) {
        let connection = &mut self.connections[index];
        let tuple = connection.tuple;
        let is_known = self.known.get(&tuple) == Some(&index);
        if connection.closed && connection.state == State::TimeWait {
            // The peer's end is to be acknowledged.
            self.machines.output(&mut connection.machine, now);
            self.finish(index, out);
            let (ours, theirs) = self.connections[index].last;
            self.ended.add(tuple, ours, theirs, now);
            return self.remove(index);
        }
        if gone || !is_known {
            if is_known {
                self.known.remove(&tuple);
            }
            if connection.closed {
                self.remove(index);
            }
            return;
        }
        if heard {
            // It is looked at again when it has sent what it has to.
            return;
        }
        let patience = if connection.state == State::FinWait2 { HALF_CLOSED } else { UNANSWERED };
        if let Some((since, _)) = connection.since
            && now >= since + patience
        {
            self.fail(index, Errno::ETIMEDOUT);
            return self.review(index, now, false, out);
        }
        let own = connection.since.map(|(since, _)| since + patience);
        let next = self.machines.next(&connection.machine, now);
        if let Some(at) = [own, next].into_iter().flatten().min()
            && connection.timer.is_none_or(|timer| at < timer)
        {
            connection.timer = Some(at);
            self.timers.add(at, index);
        }
    }

    fn remove(&mut self, index: usize) {
        let connection = self.connections.remove(index);
        if self.known.get(&connection.tuple) == Some(&index) {
            self.known.remove(&connection.tuple);
        }
        let mut machine = connection.machine;
        machine.socket().abort();
        self.machines.recycle(machine);
    }
}
