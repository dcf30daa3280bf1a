//! Delays between vertices, and paths with enough free capacity.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::network::{Network, Vertex};

/// Not reached.
pub(crate) const FAR: u32 = u32::MAX;
/// Vertices that forward from which on a path between racks may be another one than the shortest.
const LARGE: usize = 256;

/// A link as its sender or receiver sees it.
#[derive(Debug, Clone, Copy)]
struct Edge {
    link: u32,
    next: u32,
    delay: u32,
}

/// Shortest paths from or to a vertex.
#[derive(Debug, Clone)]
struct Tree {
    delay: Box<[u32]>,
    /// The number of the edge that all shortest paths take next, if it is one.
    only: Box<[u32]>,
}

/// Shortest delays between vertices that forward, worked out when first asked for and kept until a vertex fails or returns.
/// Servers that hang on one switch are left out: their one path is known. Those within have numbers of their own.
#[derive(Debug, Clone)]
pub(crate) struct Routes {
    /// Vertex to number, and back.
    number: Vec<u32>,
    vertex: Vec<u32>,
    out: Vec<Vec<Edge>>,
    into: Vec<Vec<Edge>>,
    /// By vertex.
    down: Vec<bool>,
    to: Vec<Option<Tree>>,
    from: Vec<Option<Tree>>,
    /// Counts what fails and returns.
    pub version: u64,
}

/// The only neighbour of a server, if that is a switch, and the links to and from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf {
    pub switch: u32,
    pub up: u32,
    pub down: u32,
}

/// Vertex by vertex, what is a leaf.
pub(crate) fn leaves(network: &Network) -> Vec<Option<Leaf>> {
    let n = network.vertices.len();
    let (mut out, mut into) = (vec![(0, 0); n], vec![(0, 0); n]);
    for (l, link) in network.links.iter().enumerate() {
        let (from, to) = (link.from.0 as usize, link.to.0 as usize);
        out[from] = (out[from].0 + 1, l);
        into[to] = (into[to].0 + 1, l);
    }
    let leaf = |v: usize| {
        let ((1, up), (1, down)) = (out[v], into[v]) else { return None };
        let switch = network.links[up].to;
        let joined = network.links[down].from == switch;
        let server = matches!(network.vertices[v], Vertex::Server(_));
        let is_leaf = server && joined && network.vertices[switch.0 as usize] == Vertex::Switch;
        is_leaf.then_some(Leaf { switch: switch.0, up: up as u32, down: down as u32 })
    };
    (0..n).map(leaf).collect()
}

impl Routes {
    pub fn new(network: &Network, leaves: &[Option<Leaf>]) -> Routes {
        let vertex: Vec<u32> = (0..leaves.len() as u32).filter(|v| leaves[*v as usize].is_none()).collect();
        let mut number = vec![FAR; leaves.len()];
        vertex.iter().enumerate().for_each(|(n, v)| number[*v as usize] = n as u32);
        let n = vertex.len();
        let mut routes = Routes {
            out: vec![Vec::new(); n],
            into: vec![Vec::new(); n],
            down: vec![false; leaves.len()],
            to: vec![None; n],
            from: vec![None; n],
            version: 0,
            number,
            vertex,
        };
        for (l, link) in network.links.iter().enumerate() {
            let [a, b] = [link.from, link.to].map(|v| routes.number[v.0 as usize]);
            if a != FAR && b != FAR {
                let edge = |next| Edge { link: l as u32, next, delay: link.delay };
                routes.out[a as usize].push(edge(b));
                routes.into[b as usize].push(edge(a));
            }
        }
        routes
    }

    /// Works out what every decision asks for.
    pub fn prepare(&mut self, access: &[u32]) {
        for v in access {
            self.need_to(*v);
            self.need_from(*v);
        }
    }

    pub fn is_down(&self, v: u32) -> bool {
        self.down[v as usize]
    }

    pub fn set_down(&mut self, v: u32, down: bool, access: &[u32]) {
        if self.down[v as usize] == down {
            return;
        }
        self.down[v as usize] = down;
        // The delays of all others do not depend on a leaf.
        if self.number[v as usize] != FAR {
            self.version += 1;
            self.to.fill(None);
            self.from.fill(None);
            self.prepare(access);
        }
    }

    /// The most that a link to a vertex still takes.
    pub fn headroom(&self, free: &[i64], v: u32) -> i64 {
        let links = &self.into[self.number[v as usize] as usize];
        links.iter().map(|edge| free[edge.link as usize]).max().unwrap_or(0)
    }

    pub fn need_to(&mut self, v: u32) {
        let n = self.number[v as usize] as usize;
        if self.to[n].is_none() {
            self.to[n] = Some(self.tree(n, &self.out, &self.into));
        }
    }

    pub fn need_from(&mut self, v: u32) {
        let n = self.number[v as usize] as usize;
        if self.from[n].is_none() {
            self.from[n] = Some(self.tree(n, &self.into, &self.out));
        }
    }

    /// The shortest delay between two vertices, if that was needed.
    pub fn known(&self, a: u32, b: u32) -> u32 {
        let [a, b] = [a, b].map(|v| self.number[v as usize] as usize);
        match (&self.from[a], &self.to[b]) {
            (Some(from), _) => from.delay[b],
            (_, Some(to)) => to.delay[a],
            _ => FAR,
        }
    }

    /// The shortest delay between two vertices.
    pub fn delay(&mut self, a: u32, b: u32) -> u32 {
        if a == b {
            return 0;
        }
        if self.from[self.number[a as usize] as usize].is_none() {
            self.need_to(b);
        }
        self.known(a, b)
    }

    /// Appends a path from `a` to `b` to `path`: one of the shortest delay if its links have the bandwidth, with the freest link at
    /// each step; else the shortest of those that have it, up to `most`. Answers its delay.
    pub fn path(
        &mut self,
        (a, b): (u32, u32),
        bandwidth: i64,
        most: u32,
        free: &[i64],
        path: &mut Vec<u32>,
    ) -> Option<u32> {
        if a == b {
            return (!self.is_down(a)).then_some(0);
        }
        let [from, to] = [a, b].map(|v| self.number[v as usize]);
        if self.vertex.len() > LARGE
            && self.known(a, b) == FAR
            && let Some((delay, links)) = self.two_links(from, to, bandwidth, most, free)
        {
            path.extend(links);
            return Some(delay);
        }
        let delay = self.delay(a, b);
        if delay == FAR || delay > most {
            return None;
        }
        let start = path.len();
        let (a, b) = (from, to);
        if self.walk(a, b, |l| Some(free[l as usize]).filter(|f| *f >= bandwidth), path) {
            return Some(delay);
        }
        path.truncate(start);
        self.detour(a, b, most, |l| free[l as usize] >= bandwidth, path)
    }

    /// The freest path over one vertex between: in a large network a tree for each rack would take too long.
    fn two_links(&self, a: u32, b: u32, bandwidth: i64, most: u32, free: &[i64]) -> Option<(u32, [u32; 2])> {
        let mut best: Option<(i64, u32, [u32; 2])> = None;
        for first in &self.out[a as usize] {
            let space = free[first.link as usize];
            if space < bandwidth
                || best.is_some_and(|(most, ..)| space <= most)
                || self.is_down_within(first.next)
            {
                continue;
            }
            for second in self.into[b as usize].iter().filter(|e| e.next == first.next) {
                let space = space.min(free[second.link as usize]);
                let delay = first.delay.saturating_add(second.delay);
                if space >= bandwidth && delay <= most && best.is_none_or(|(most, ..)| space > most) {
                    best = Some((space, delay, [first.link, second.link]));
                }
            }
        }
        best.filter(|_| !self.is_down_within(a) && !self.is_down_within(b))
            .map(|(_, delay, links)| (delay, links))
    }

    fn is_down_within(&self, n: u32) -> bool {
        self.down[self.vertex[n as usize] as usize]
    }

    /// Appends the path of least cost among those of the shortest delay.
    pub fn cheapest(&mut self, a: u32, b: u32, cost: &[u64], path: &mut Vec<u32>) -> bool {
        self.need_to(b);
        let (a, b) = (self.number[a as usize], self.number[b as usize]);
        let Some(delays) =
            self.to[b as usize].as_ref().map(|to| &to.delay).filter(|to| to[a as usize] != FAR)
        else {
            return false;
        };
        let mut best = HashMap::from([(a, (0, FAR, FAR))]);
        let mut heap = BinaryHeap::from([Reverse((0_u64, a))]);
        while let Some(Reverse((paid, v))) = heap.pop() {
            if v == b {
                let start = path.len();
                let mut at = b;
                while at != a {
                    let (_, link, before) = best[&at];
                    path.push(link);
                    at = before;
                }
                path[start..].reverse();
                return true;
            }
            if best.get(&v).is_some_and(|(least, ..)| paid > *least) {
                continue;
            }
            for edge in &self.out[v as usize] {
                if delays[edge.next as usize].checked_add(edge.delay) == Some(delays[v as usize]) {
                    let paid = paid + cost[edge.link as usize];
                    if best.get(&edge.next).is_none_or(|(least, ..)| paid < *least) {
                        best.insert(edge.next, (paid, edge.link, v));
                        heap.push(Reverse((paid, edge.next)));
                    }
                }
            }
        }
        false
    }

    /// Along shortest paths only, without turning back.
    fn walk(&self, a: u32, b: u32, worth: impl Fn(u32) -> Option<i64>, path: &mut Vec<u32>) -> bool {
        let (tree, edges, mut at, end) = match (&self.from[a as usize], &self.to[b as usize]) {
            (Some(from), _) => (from, &self.into, b, a),
            (_, Some(to)) => (to, &self.out, a, b),
            _ => return false,
        };
        let start = path.len();
        while at != end {
            let here = tree.delay[at as usize];
            let edges = match tree.only[at as usize] {
                FAR => &edges[at as usize][..],
                only => &edges[at as usize][only as usize..=only as usize],
            };
            let mut best: Option<(i64, u32, u32)> = None;
            for edge in edges {
                // Without delay there could be circles.
                let nearer = edge.delay > 0 || edge.next == end;
                if tree.delay[edge.next as usize].checked_add(edge.delay) == Some(here)
                    && nearer
                    && let Some(worth) = worth(edge.link)
                    && best.is_none_or(|(most, ..)| worth > most)
                {
                    best = Some((worth, edge.link, edge.next));
                }
            }
            let Some((_, link, next)) = best else {
                path.truncate(start);
                return false;
            };
            path.push(link);
            at = next;
        }
        if end == a {
            path[start..].reverse();
        }
        true
    }

    fn detour(
        &self,
        a: u32,
        b: u32,
        most: u32,
        fits: impl Fn(u32) -> bool,
        path: &mut Vec<u32>,
    ) -> Option<u32> {
        let mut best = vec![(FAR, FAR, FAR); self.out.len()];
        let mut heap = BinaryHeap::from([Reverse((0, a))]);
        best[a as usize].0 = 0;
        while let Some(Reverse((delay, v))) = heap.pop() {
            if v == b {
                let start = path.len();
                let mut at = b;
                while at != a {
                    let (_, link, before) = best[at as usize];
                    path.push(link);
                    at = before;
                }
                path[start..].reverse();
                return Some(delay);
            }
            if delay > best[v as usize].0 {
                continue;
            }
            for edge in &self.out[v as usize] {
                let next = edge.next as usize;
                let Some(far) = delay.checked_add(edge.delay).filter(|far| *far <= most) else { continue };
                if far < best[next].0 && fits(edge.link) && !self.down[self.vertex[next] as usize] {
                    best[next] = (far, edge.link, v);
                    heap.push(Reverse((far, edge.next)));
                }
            }
        }
        None
    }

    fn tree(&self, start: usize, back: &[Vec<Edge>], edges: &[Vec<Edge>]) -> Tree {
        let delay = self.shortest(start, edges);
        let only = |(v, back): (usize, &Vec<Edge>)| {
            let next = |e: &Edge| delay[e.next as usize].checked_add(e.delay) == Some(delay[v]);
            let mut next = back.iter().enumerate().filter(|(_, e)| next(e));
            match (next.next(), next.next()) {
                (Some((n, _)), None) => n as u32,
                _ => FAR,
            }
        };
        Tree { only: back.iter().enumerate().map(only).collect(), delay }
    }

    /// Dijkstra. A vertex that is down is not reached.
    fn shortest(&self, start: usize, edges: &[Vec<Edge>]) -> Box<[u32]> {
        let mut found = vec![FAR; self.vertex.len()].into_boxed_slice();
        let down = |n: usize| self.down[self.vertex[n] as usize];
        if down(start) {
            return found;
        }
        let mut heap = BinaryHeap::from([Reverse((0_u32, start as u32))]);
        found[start] = 0;
        while let Some(Reverse((delay, v))) = heap.pop() {
            if delay > found[v as usize] {
                continue;
            }
            for edge in &edges[v as usize] {
                let next = edge.next as usize;
                let Some(far) = delay.checked_add(edge.delay).filter(|far| *far < found[next]) else {
                    continue;
                };
                if !down(next) {
                    found[next] = far;
                    heap.push(Reverse((far, edge.next)));
                }
            }
        }
        found
    }
}
