//! Mistakes in what the controller does with its nodes.

use super::{Mutation, Test};

const MOVES: Test =
    Test { package: "weir-sim", target: Some("seeds"), filter: "functions_move_in_the_first_half" };

pub(super) const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "a function that moves runs at the target before the source is gone",
        file: "crates/weir-controller/src/split.rs",
        text: "Stage::Ready | Stage::Turned => vec![(&m.from, moving), (&m.to, moving)],",
        instead: "Stage::Ready | Stage::Turned => vec![(&m.from, f.state), (&m.to, f.state)],",
        test: MOVES,
    },
    Mutation {
        name: "a function goes on at the target while the source works",
        file: "crates/weir-controller/src/migrate/core.rs",
        text: "(Stage::Ready, true) => Next::Stage(Stage::Turned, End::Target),",
        instead: "(Stage::Ready, true) => Next::Stage(Stage::Arrived, End::Target),",
        test: MOVES,
    },
    Mutation {
        name: "a function that moves goes on at the target before the store has it",
        file: "crates/weir-controller/src/migrate/mod.rs",
        text: "self.turn(id, moving, ex).await?;\n",
        instead: "self.turn(id, moving, ex).await?;\n                let now = self.graph(id)?.graph;\n                self.go(id, moving, &now, ex).await;\n",
        test: MOVES,
    },
    Mutation {
        name: "a move that failed goes on at the target, without the state",
        file: "crates/weir-controller/src/migrate/core.rs",
        text: "(Stage::Turned, false) => Next::Stage(Stage::Arrived, End::Source),",
        instead: "(Stage::Turned, false) => Next::Stage(Stage::Arrived, End::Target),",
        test: MOVES,
    },
];
