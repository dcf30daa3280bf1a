//! What users rely on, over random demands, departures and failures.

use proptest::prelude::*;
use weir_placement::experiment::{Shape, bound, services};
use weir_placement::{
    Algorithm, Demand, Domain, End, Flow, Initial, Kind, LinkId, Module, Network, Placement, Placer, Reason,
    Refusal, Region, Server, Sink, Spec, Vertex, VertexId,
};

const ALL: [Algorithm; 7] = [
    Algorithm::Fit,
    Algorithm::Paper { initial: Initial::Random, tabu: false },
    Algorithm::Paper { initial: Initial::Random, tabu: true },
    Algorithm::Paper { initial: Initial::RoundRobin, tabu: false },
    Algorithm::Paper { initial: Initial::RoundRobin, tabu: true },
    Algorithm::Paper { initial: Initial::FewestServers, tabu: false },
    Algorithm::Paper { initial: Initial::FewestServers, tabu: true },
];

/// Two sites of a rack each and a server with links to both: access points 0 and 1.
fn sites() -> (Domain, [VertexId; 2], Vec<VertexId>) {
    let mut network = Network::new();
    let access = [(); 2].map(|()| network.add(Vertex::Access));
    let switches = [(); 2].map(|()| network.add(Vertex::Switch));
    network.cable(switches[0], switches[1], 300, 5);
    let mut servers = Vec::new();
    for (n, switch) in switches.into_iter().enumerate() {
        network.cable(access[n], switch, 1000, 1);
        for kinds in [0b01, 0b11] {
            let server = Server { cpu: 4000, memory: 1000, internal: 500, region: Region(n as u32), kinds };
            servers.push(network.add(Vertex::Server(server)));
            network.cable(servers[servers.len() - 1], switch, 400, 1);
        }
    }
    let server = Server { cpu: 8000, memory: 4000, internal: 500, region: Region(2), kinds: 0b100 };
    servers.push(network.add(Vertex::Server(server)));
    for switch in switches {
        network.cable(servers[4], switch, 400, 2);
    }
    (Domain::new(network).unwrap(), access, servers)
}

/// A chain from an access point over modules to a sink.
fn chain(modules: Vec<Module>, source: VertexId, bandwidth: u64, max_delay: Option<u32>) -> Spec {
    let last = modules.len() - 1;
    let mut flows = vec![Flow { from: End::Source(0), to: End::Module(0), bandwidth }];
    flows.extend((0..last).map(|g| Flow { from: End::Module(g), to: End::Module(g + 1), bandwidth }));
    flows.push(Flow { from: End::Module(last), to: End::Sink(0), bandwidth });
    Spec { modules, sources: vec![source], sinks: vec![Sink::Any], flows, max_delay, migrate: false }
}

fn module(cpu: u32, memory: u32) -> Module {
    Module { cpu, memory, ..Module::default() }
}

/// The free resources of servers and links, and the services that run.
type State = (Vec<(u32, u32, u64)>, Vec<u64>, Vec<Placement>);

fn state(domain: &Domain) -> State {
    let network = domain.network();
    let servers =
        (0..network.vertices().len()).filter_map(|v| domain.free_of(VertexId(v as u32)).ok()).collect();
    let links = (0..network.links().len()).filter_map(|l| domain.free_of_link(LinkId(l as u32))).collect();
    (servers, links, domain.services().map(|s| domain.placement(s).unwrap()).collect())
}

/// Holds a placement against what was asked, without the crate's help.
fn check(domain: &Domain, demand: &Demand, placed: &Placement) {
    let spec = demand.spec();
    let network = domain.network();
    let place = |end: End| match end {
        End::Source(n) => spec.sources[n],
        End::Module(n) => placed.servers[n],
        End::Sink(n) => placed.sinks[n],
    };
    for (flow, path) in spec.flows.iter().zip(&placed.paths) {
        let mut at = place(flow.from);
        for link in path {
            let link = network.links()[link.0 as usize];
            assert_eq!(link.from, at, "a path has no gaps");
            at = link.to;
        }
        assert_eq!(at, place(flow.to), "a path ends where its flow does");
    }
    let delay = |n: usize| placed.paths[n].iter().map(|l| network.links()[l.0 as usize].delay).sum::<u32>();
    // Without cycles, as many rounds as flows reach every end.
    let ends = spec.modules.len() + spec.sinks.len();
    let number = |end: End| match end {
        End::Source(_) => None,
        End::Module(n) => Some(n),
        End::Sink(n) => Some(spec.modules.len() + n),
    };
    let mut arrival = vec![0; ends];
    for _ in 0..spec.flows.len() {
        for (n, flow) in spec.flows.iter().enumerate() {
            let Some(to) = number(flow.to) else { continue };
            let from = number(flow.from).map_or(0, |from| arrival[from]);
            arrival[to] = arrival[to].max(from + delay(n));
        }
    }
    let most = arrival.into_iter().max().unwrap();
    assert!(most <= spec.max_delay.unwrap_or(u32::MAX), "{most} is more than {:?}", spec.max_delay);
    assert_eq!(most, placed.delay);
    for (g, module) in spec.modules.iter().enumerate() {
        let Vertex::Server(server) = network.vertices()[placed.servers[g].0 as usize] else {
            panic!("no server")
        };
        assert!(module.kind.is_none_or(|k| server.kinds >> k.0 & 1 == 1));
        assert!(module.region.is_none_or(|r| r == server.region));
        assert!(module.node.is_none_or(|n| n == placed.servers[g]));
        for (o, other) in spec.modules.iter().enumerate().filter(|(o, _)| *o != g) {
            let joined = placed.servers[g] == placed.servers[o];
            assert!(module.together.is_none() || module.together != other.together || joined);
            assert!(module.apart & other.apart == 0 || !joined);
        }
    }
}

fn wishes() -> impl Strategy<Value = Module> {
    let cpu = prop_oneof![Just(500), Just(1500), Just(3000)];
    let group = prop_oneof![4 => Just(None), 1 => (0..2_u8).prop_map(Some)];
    // Mostly in none, else in one, or in both.
    let apart = prop_oneof![4 => Just(0), 1 => 1..4_u64];
    (cpu, 50..600_u32, 0..10_u8, group, apart).prop_map(|(cpu, memory, wish, together, apart)| Module {
        cpu,
        memory,
        kind: (wish == 1).then_some(Kind(1)),
        region: (wish == 2).then_some(Region(1)),
        node: (wish == 3).then_some(VertexId(5)),
        together,
        apart: if together.is_some() { 0 } else { apart },
    })
}

fn demands() -> impl Strategy<Value = Demand> {
    let delay = prop_oneof![Just(None), (4..20_u32).prop_map(Some)];
    (proptest::collection::vec(wishes(), 1..5), 0..2_u32, 1..120_u64, delay, any::<bool>()).prop_map(
        |(modules, source, bandwidth, delay, migrate)| {
            Demand::new(Spec { migrate, ..chain(modules, VertexId(source), bandwidth, delay) }).unwrap()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Nothing is over-committed, refused demands change nothing, the state is that of what runs, all that is released is back.
    #[test]
    fn a_domain_stays_exact(list in proptest::collection::vec((demands(), 0..4_usize), 1..25), which in 0..ALL.len(), seed: u64) {
        let (mut domain, ..) = sites();
        let empty = state(&domain);
        let mut placer = Placer::new(ALL[which], seed);
        let mut running = Vec::new();
        for (demand, leave) in &list {
            let before = state(&domain);
            match placer.place(&mut domain, demand) {
                Ok(placed) => {
                    check(&domain, demand, &placed);
                    running.push(placed.service);
                }
                Err(_) => prop_assert_eq!(before, state(&domain)),
            }
            prop_assert_eq!(domain.audit(), Ok(()));
            if *leave == 0 && !running.is_empty() {
                domain.release(running.remove(0)).unwrap();
                prop_assert_eq!(domain.audit(), Ok(()));
            }
        }
        running.into_iter().for_each(|s| domain.release(s).unwrap());
        prop_assert_eq!(empty, state(&domain));
    }

    /// The same seed and the same calls give the same placements.
    #[test]
    fn a_seed_says_it_all(list in proptest::collection::vec(demands(), 1..12), which in 0..ALL.len(), seed: u64) {
        let run = || {
            let (mut domain, ..) = sites();
            let mut placer = Placer::new(ALL[which], seed);
            list.iter().map(|d| placer.place(&mut domain, d)).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }

    /// After a failure nothing is left on the vertex, the state is exact, and modules elsewhere stay unless they may migrate.
    #[test]
    fn failures_move_what_they_hit(list in proptest::collection::vec(demands(), 1..12), vertex in 0..9_u32, seed: u64) {
        let (mut domain, ..) = sites();
        let mut placer = Placer::new(Algorithm::Fit, seed);
        let placed: Vec<Placement> = list.iter().filter_map(|d| placer.place(&mut domain, d).ok()).collect();
        let hit = domain.services_at(VertexId(vertex));
        let moved = placer.fail(&mut domain, VertexId(vertex)).unwrap();
        prop_assert_eq!(moved.iter().map(|m| m.service).collect::<Vec<_>>(), hit);
        prop_assert_eq!(domain.services_at(VertexId(vertex)), []);
        prop_assert_eq!(domain.audit(), Ok(()));
        for old in &placed {
            match moved.iter().find(|m| m.service == old.service).map(|m| &m.outcome) {
                None => prop_assert_eq!(old, &domain.placement(old.service).unwrap()),
                Some(Err(_)) => prop_assert!(domain.placement(old.service).is_err()),
                Some(Ok(new)) => {
                    let demand = domain.demand(old.service).unwrap();
                    check(&domain, &demand, new);
                    let stays = |g: usize| old.servers[g].0 == vertex || old.servers[g] == new.servers[g];
                    prop_assert!(demand.spec().migrate || (0..old.servers.len()).all(stays));
                }
            }
        }
    }

    /// In a small domain a demand is refused only if no choice of servers and access points would do.
    #[test]
    fn small_domains_are_searched_wholly(list in proptest::collection::vec(demands(), 1..6), seed: u64) {
        let (mut domain, _, servers) = sites();
        let mut placer = Placer::new(Algorithm::Fit, seed);
        for demand in &list {
            if placer.place(&mut domain, demand).is_err() {
                prop_assert_eq!(any_choice(&domain, demand, &servers), None);
            }
        }
    }
}

/// Tries every choice of servers for a chain, with each access point, and flows on the one or two paths that there are.
fn any_choice(domain: &Domain, demand: &Demand, servers: &[VertexId]) -> Option<Vec<VertexId>> {
    let spec = demand.spec();
    let modules = spec.modules.len();
    let choices = servers.len().pow(modules as u32);
    for choice in 0..choices {
        let at: Vec<VertexId> =
            (0..modules).map(|g| servers[choice / servers.len().pow(g as u32) % servers.len()]).collect();
        for sink in 0..2 {
            // The choice as wishes: whoever can only answer yes or no is asked about this one alone.
            let mut pinned = spec.clone();
            for (module, server) in pinned.modules.iter_mut().zip(&at) {
                if module.node.is_some_and(|n| n != *server) {
                    module.region = Some(Region(99));
                }
                module.node = Some(*server);
            }
            pinned.sinks = vec![Sink::OneOf(vec![VertexId(sink)])];
            let pinned = Demand::new(pinned).unwrap();
            let paper = Algorithm::Paper { initial: Initial::FewestServers, tabu: false };
            if Placer::new(paper, 1).place(&mut domain.clone(), &pinned).is_ok() {
                return Some(at);
            }
        }
    }
    None
}

#[test]
fn all_algorithms_fill_a_small_data_centre_without_mistakes() {
    let (network, access) = Shape::SMALL.build();
    let demands = services(400, &access, 13, 5);
    let most = bound(&network, &demands);
    let mut accepted = Vec::new();
    for algorithm in ALL {
        let mut domain = Domain::new(network.clone()).unwrap();
        let mut placer = Placer::new(algorithm, 1);
        placer.expect(Some(400));
        for demand in &demands {
            if let Ok(placed) = placer.place(&mut domain, demand) {
                check(&domain, demand, &placed);
            }
        }
        assert_eq!(domain.audit(), Ok(()), "{algorithm:?}");
        assert!(domain.running() as f64 <= most, "{algorithm:?}: {} of {most}", domain.running());
        accepted.push(domain.running());
    }
    assert!(accepted[1..].iter().all(|other| *other <= accepted[0]), "{accepted:?}");
}

#[test]
fn more_is_placed_if_the_number_of_demands_is_known() {
    let (network, access) = Shape::SMALL.build();
    let demands = services(400, &access, 13, 5);
    let placed = |expected| {
        let mut domain = Domain::new(network.clone()).unwrap();
        let mut placer = Placer::new(Algorithm::Fit, 1);
        placer.expect(expected);
        demands.iter().filter(|d| placer.place(&mut domain, d).is_ok()).count()
    };
    let [unknown, known] = [None, Some(400)].map(placed);
    assert!(known > unknown, "{known}, without {unknown}");
}

#[test]
fn refusals_say_why_node_by_node() {
    let (mut domain, [access, _], servers) = sites();
    let mut placer = Placer::new(Algorithm::Fit, 1);
    domain.cordon(servers[1], true).unwrap();
    domain.set_down(servers[2], true).unwrap();
    let asked = Module { kind: Some(Kind(0)), ..module(5000, 10) };
    let demand = Demand::new(chain(vec![asked], access, 10, None)).unwrap();
    assert_eq!(placer.place(&mut domain, &demand), Err(Refusal::NoServer { module: 0 }));
    let why = domain.explain(&demand).unwrap();
    let expected = [Reason::Cpu, Reason::Cordoned, Reason::Down, Reason::Cpu, Reason::OtherKind];
    let nodes: Vec<(VertexId, Reason)> = servers.iter().copied().zip(expected).collect();
    assert_eq!(why.modules[0].nodes, nodes);
    assert_eq!(
        why.to_string(),
        "module 0: 2 too little free cpu; 1 down; 1 cordoned; 1 does not run this kind of function\n"
    );
    let far =
        Demand::new(chain(vec![Module { region: Some(Region(1)), ..module(1, 1) }], access, 10, Some(7)))
            .unwrap();
    let reasons = |domain: &mut Domain| domain.explain(&far).unwrap().modules[0].sums.clone();
    assert_eq!(reasons(&mut domain)[&Reason::OtherRegion], 2);
    // To the other site, and out there: access 1, over the server between 2 and 2, server 1 and 1, access 1.
    assert!(placer.place(&mut domain, &far).is_err());
    let near = Demand::new(Spec { max_delay: Some(8), ..far.spec().clone() }).unwrap();
    assert_eq!(placer.place(&mut domain, &near).unwrap().delay, 8);
}

#[test]
fn a_vertex_that_is_no_access_point_is_told() {
    let (mut domain, _, servers) = sites();
    let demand = Demand::new(chain(vec![module(1, 1)], servers[0], 1, None)).unwrap();
    let error = Placer::new(Algorithm::Fit, 1).place(&mut domain, &demand).unwrap_err();
    assert_eq!(error.to_string(), format!("vertex {} is no access point of this domain", servers[0].0));
    assert_eq!(domain.explain(&demand).unwrap_err(), error);
}

#[test]
fn a_service_that_ended_is_told_apart_from_the_one_in_its_place() {
    let (mut domain, [access, _], _) = sites();
    let mut placer = Placer::new(Algorithm::Fit, 1);
    let demand = Demand::new(chain(vec![module(1, 1)], access, 1, None)).unwrap();
    let first = placer.place(&mut domain, &demand).unwrap().service;
    domain.release(first).unwrap();
    let second = placer.place(&mut domain, &demand).unwrap().service;
    assert_eq!(domain.release(first).unwrap_err().to_string(), format!("there is no service {}", first.0));
    assert!(domain.placement(second).is_ok());
}

#[test]
fn a_lost_path_is_replaced_while_the_modules_stay() {
    let mut network = Network::new();
    let access = network.add(Vertex::Access);
    let rack = network.add(Vertex::Switch);
    let middle = [(); 2].map(|()| network.add(Vertex::Switch));
    for m in middle {
        network.cable(access, m, 100, 1);
        network.cable(m, rack, 100, 1);
    }
    let server = Server { cpu: 1000, memory: 100, internal: 0, region: Region(0), kinds: 0 };
    let server = network.add(Vertex::Server(server));
    network.cable(server, rack, 100, 1);
    let mut domain = Domain::new(network).unwrap();
    let mut placer = Placer::new(Algorithm::Fit, 1);
    let demand = Demand::new(chain(vec![module(10, 10)], access, 80, None)).unwrap();
    let placed = placer.place(&mut domain, &demand).unwrap();
    let used = domain.network().links()[placed.paths[0][0].0 as usize].to;
    let moved = placer.fail(&mut domain, used).unwrap();
    let new = moved[0].outcome.as_ref().unwrap();
    check(&domain, &demand, new);
    assert_ne!(new.paths[0], placed.paths[0]);
    // The second path is gone too: the service ends, and all is free.
    let other = middle.into_iter().find(|m| *m != used).unwrap();
    assert!(placer.fail(&mut domain, other).unwrap()[0].outcome.is_err());
    assert_eq!((domain.running(), domain.audit()), (0, Ok(())));
}
