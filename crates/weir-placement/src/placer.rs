//! The algorithms behind one interface.

use crate::demand::Demand;
use crate::domain::{Domain, DomainError, Placement, Service, ServiceId};
use crate::fit::Fit;
use crate::network::VertexId;
use crate::paper::Paper;
use crate::random::Random;
use crate::refusal::Refusal;

/// How a place is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Weir's own: leaves servers such that what is left of them can be used.
    #[default]
    Fit,
    /// The paper's, with or without Tabu search.
    Paper {
        /// How a first solution is made.
        initial: Initial,
        /// Whether it is searched on if it violates constraints.
        tabu: bool,
    },
}

/// How the paper makes a first solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Initial {
    /// R, algorithm 3: any server.
    Random,
    /// S, algorithm 4: servers in use first.
    FewestServers,
    /// RR, algorithm 5: one server after the other.
    RoundRobin,
}

/// Places demands. The same seed and the same calls give the same placements.
#[derive(Debug, Clone)]
pub struct Placer {
    random: Random,
    method: Method,
}

#[derive(Debug, Clone)]
enum Method {
    Fit(Box<Fit>),
    Paper(Box<Paper>),
}

/// The outcome for a service whose vertex failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The service: it keeps its number.
    pub service: ServiceId,
    /// Where it runs now, or why it was ended.
    pub outcome: Result<Placement, Refusal>,
}

impl Placer {
    /// Takes all its random numbers from `seed`. One placer works on one domain.
    pub fn new(algorithm: Algorithm, seed: u64) -> Placer {
        let method = match algorithm {
            Algorithm::Fit => Method::Fit(Box::default()),
            Algorithm::Paper { initial, tabu } => Method::Paper(Box::new(Paper::new(initial, tabu))),
        };
        Placer { random: Random::new(seed), method }
    }

    /// Says how many more demands will come before services leave, if that is known. Then those that take too much of what is scarce
    /// are refused early, so that more are placed in all; without it, everything is placed that can be. [`Algorithm::Fit`] only.
    pub fn expect(&mut self, demands: Option<u64>) {
        if let Method::Fit(fit) = &mut self.method {
            fit.expect(demands);
        }
    }

    /// Places a demand, or says why not and changes nothing.
    pub fn place(&mut self, domain: &mut Domain, demand: &Demand) -> Result<Placement, Refusal> {
        let service = self.decide(domain, demand)?;
        domain.placement(service).map_err(|_| Refusal::NoPlacement)
    }

    /// As [`Placer::place`], without collecting where everything is.
    pub fn decide(&mut self, domain: &mut Domain, demand: &Demand) -> Result<ServiceId, Refusal> {
        domain.know(demand)?;
        let service = self.find(domain, demand, true)?;
        Ok(domain.keep(service, None))
    }

    /// Takes a vertex out of use, and places anew what it ran or passed on. Modules that run elsewhere stay where they are, unless
    /// that leaves no place and the demand may migrate. What finds no place is ended.
    pub fn fail(&mut self, domain: &mut Domain, vertex: VertexId) -> Result<Vec<Moved>, DomainError> {
        domain.set_down(vertex, true)?;
        let mut moved = Vec::new();
        for service in domain.services_at(vertex) {
            let old = domain.take_out(service)?;
            let found = match self.find_around(domain, &old) {
                Ok(found) => Ok(found),
                Err(_) if old.demand.0.spec.migrate => self.find(domain, &old.demand, false),
                Err(refusal) => Err(refusal),
            };
            let outcome = match found {
                Ok(found) => {
                    domain.keep(found, Some(service));
                    Ok(domain.placement(service)?)
                }
                Err(refusal) => {
                    domain.give_up(service);
                    Err(refusal)
                }
            };
            moved.push(Moved { service, outcome });
        }
        Ok(moved)
    }

    /// A place, its resources taken, not yet kept. `new`: it may be refused for its price.
    fn find(&mut self, domain: &mut Domain, demand: &Demand, new: bool) -> Result<Service, Refusal> {
        match &mut self.method {
            Method::Fit(fit) => fit.place(domain, demand, &mut self.random, new),
            Method::Paper(paper) => match paper.place(domain, demand, &mut self.random) {
                Some(candidate) => Ok(candidate.keep()),
                None => Err(Refusal::NoPlacement),
            },
        }
    }

    /// A place where all modules of a service that run on working servers stay.
    fn find_around(&mut self, domain: &mut Domain, old: &Service) -> Result<Service, Refusal> {
        let fixed: Vec<bool> = (0..old.at.len()).map(|p| domain.works(old, p)).collect();
        let stays: Vec<Option<u32>> =
            old.at.iter().zip(&fixed).map(|(at, stays)| stays.then_some(*at)).collect();
        crate::span::place(domain, &old.demand, &stays, None, &mut self.random)
    }
}
