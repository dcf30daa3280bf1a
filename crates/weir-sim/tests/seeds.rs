//! Seeds in which nothing may go wrong.

use weir_sim::{Report, simulate, simulate_moves, simulate_several};

fn run(seeds: std::ops::Range<u64>, simulate: fn(u64) -> Report) {
    let mut accepted = 0;
    for seed in seeds {
        let report = simulate(seed);
        accepted += report.accepted;
        assert!(
            report.violations.is_empty(),
            "seed {seed}: {:?}\n{}",
            report.violations,
            report.history.join("\n")
        );
    }
    assert!(accepted > 1000, "{accepted}: nothing much was done");
}

#[test]
fn nothing_goes_wrong_in_the_first_half_of_a_thousand_seeds() {
    run(0..500, simulate);
}

#[test]
fn nothing_goes_wrong_in_the_second_half() {
    run(500..1000, simulate);
}

/// Functions move while connections end, and nodes and the controller are killed: none runs at two nodes, none at no node in the end, and none begins anew.
#[test]
fn functions_move_in_the_first_half_of_a_thousand_seeds() {
    run(0..500, simulate_moves);
}

#[test]
fn functions_move_in_the_second_half() {
    run(500..1000, simulate_moves);
}

/// Several controllers: leases end while their holders go on, requests to etcd and their answers are lost, and whoever leads is killed.
#[test]
fn several_controllers_lose_nothing_in_the_first_half_of_a_thousand_seeds() {
    run(0..500, simulate_several);
}

#[test]
fn several_controllers_lose_nothing_in_the_second_half() {
    run(500..1000, simulate_several);
}

#[test]
fn a_seed_happens_again_as_it_did() {
    for seed in [3, 5, 8] {
        assert_eq!(simulate(seed), simulate(seed));
        assert_eq!(simulate_several(seed), simulate_several(seed));
    }
}
