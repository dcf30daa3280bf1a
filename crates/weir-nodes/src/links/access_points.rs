use std::collections::BTreeMap;
use std::fmt::Write;

use weir_packet::Packet;

use crate::env::links::{Entrance, Links, pop_tag, tag_of};
use crate::prelude::*;

/// No graph takes packets from the link.
const LINK_DOWN: Reason = Reason::new("LinkDown");
/// VLANs are numbered below this.
const VLANS: usize = 4096;

engine_node! {
    /// The access points of an interface: hands frames to graphs by their VLAN tag, and takes from these what leaves.
    ///
    /// What comes in goes over the link of the access point that has its VLAN (IEEE 802.1Q or 802.1ad), without the tag;
    /// of all others to the access point that takes the rest, as it is; else it is dropped (`NoMatch`). Packets that come
    /// over the links of access points leave by the output, with the tag of the access point's VLAN.
    ///
    /// Access points come and go by the handler `change`. A hot swap keeps them.
    AccessPoints: "1/1", "h/h", Source, Devices;
    example "FromDevice(eth0) -> a :: AccessPoints -> Queue -> ToDevice(eth0);";
    handlers {
        /// The access points, one a line: VLAN (`-`: all others), the link to the graph, the link from it.
        read points = |a, _| Ok(a.state.text()),
        /// Number of access points.
        read count = |a, _| Ok(a.state.rows.len().to_string()),
        /// Changes access points: `- VLAN` and `+ VLAN TO FROM`, one a line, in this order, all or none.
        write change = |a, value, env| a.state.change(value, &mut env.links),
    }
    state Points;
}

/// The links of an access point.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    to: String,
    to_id: usize,
    from: String,
    from_id: usize,
}

#[derive(Debug, Default)]
struct Points {
    /// By VLAN; `None` takes all others.
    rows: BTreeMap<Option<u16>, Row>,
    /// The link of a VLAN and one more; empty while no access point has one.
    by_vlan: Vec<u32>,
    /// The link of all others.
    others: Option<usize>,
    /// Where packets of links enter.
    entrance: Option<Entrance>,
}

/// A VLAN of an access point.
fn vlan(word: &str) -> Result<Option<u16>, String> {
    match word.parse() {
        _ if word == "-" => Ok(None),
        Ok(id @ 1..=4094) => Ok(Some(id)),
        _ => Err(format!("'{word}' is no VLAN: give 1 to 4094, or - for all others")),
    }
}

impl Points {
    fn text(&self) -> String {
        let mut text = String::new();
        for (vlan, row) in &self.rows {
            match vlan {
                Some(id) => _ = writeln!(text, "{id} {} {}", row.to, row.from),
                None => _ = writeln!(text, "- {} {}", row.to, row.from),
            }
        }
        text
    }

    fn change(&mut self, text: &str, links: &mut Links) -> Result<(), String> {
        let mut next = BTreeMap::new();
        // What is not in `next` stays.
        for line in text.lines().filter(|l| !l.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["-", id] => drop(next.insert(vlan(id)?, None)),
                ["+", id, to, from] => {
                    let id = vlan(id)?;
                    let there = next.get(&id).map_or(self.rows.contains_key(&id), Option::is_some);
                    if there {
                        return Err(format!("'{line}': there is such an access point already"));
                    }
                    let (to_id, from_id) = (links.id(to), links.id(from));
                    let elsewhere = links.entrance(from_id).is_some_and(|e| Some(e) != self.entrance);
                    if elsewhere {
                        return Err(format!("'{line}': another graph has the FromLink of '{from}' already"));
                    }
                    next.insert(id, Some(Row { to: to.to_owned(), to_id, from: from.to_owned(), from_id }));
                }
                _ => return Err(format!("'{line}': write '- VLAN' or '+ VLAN TO FROM'")),
            }
        }
        for (id, row) in next {
            if let Some(old) = self.rows.remove(&id) {
                links.leave(old.from_id);
            }
            self.lead(id, row.as_ref().map(|row| row.to_id));
            if let Some(row) = row {
                self.entrance.into_iter().for_each(|e| links.join(row.from_id, e, id));
                self.rows.insert(id, row);
            }
        }
        Ok(())
    }

    /// Says where packets of a VLAN go.
    fn lead(&mut self, id: Option<u16>, to: Option<usize>) {
        match id {
            None => self.others = to,
            Some(id) => {
                self.by_vlan.resize(VLANS, 0);
                self.by_vlan[usize::from(id)] = to.map_or(0, |link| link as u32 + 1);
            }
        }
    }

    /// The link of a frame, and whether its tag goes off.
    fn link_of(&self, packet: &Packet) -> Option<(usize, bool)> {
        let tagged = tag_of(packet).and_then(|id| self.by_vlan.get(usize::from(id)));
        match tagged {
            Some(&link) if link > 0 => Some((link as usize - 1, true)),
            _ => Some((self.others?, false)),
        }
    }
}

impl Behavior for AccessPoints {
    fn push(&mut self, _port: u32, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
        let mut run: Vec<Packet> = Vec::new();
        let mut last = None;
        for mut packet in packets.drain(..) {
            let Some((link, tagged)) = self.state.link_of(&packet) else {
                cx.drop(&Reason::NO_MATCH, packet);
                continue;
            };
            if !cx.env().links.is_up(link) {
                cx.drop(&LINK_DOWN, packet);
                continue;
            }
            if tagged {
                pop_tag(&mut packet);
            }
            // Packets of one access point go together.
            if let Some(before) = last.replace(link).filter(|before| *before != link) {
                send(before, &mut run, cx);
            }
            run.push(packet);
        }
        if let Some(link) = last {
            send(link, &mut run, cx);
        }
    }

    fn adopt(&mut self, old: &mut dyn EngineNode) {
        if let Some(old) = old.as_any().downcast_mut::<AccessPoints>() {
            self.state = std::mem::take(&mut old.state);
        }
    }

    fn join_links(&mut self, entrance: Entrance, links: &mut Links) {
        self.state.entrance = Some(entrance);
        self.state.rows.iter().for_each(|(id, row)| links.join(row.from_id, entrance, *id));
    }

    fn leave_links(&mut self, links: &mut Links) {
        self.state.rows.values().for_each(|row| links.leave(row.from_id));
    }

    fn on_every_worker(&self) -> bool {
        true
    }
}

fn send(link: usize, packets: &mut Vec<Packet>, cx: &mut Cx<'_>) {
    cx.env().links.send(link, packets);
    packets.drain(..).for_each(|p| cx.drop(&Reason::NO_SPACE, p));
}
