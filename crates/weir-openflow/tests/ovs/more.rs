//! What Open vSwitch has besides the specification.

use weir_openflow::error::flow_mod_failed;
use weir_openflow::flow::FlowMod;
use weir_openflow::multipart::{MultipartReply, MultipartRequest};
use weir_openflow::numbers::FlowModCommand;
use weir_openflow::oxm::{Field, FieldValue, Oxm};
use weir_openflow::stats::FlowStatsRequest;
use weir_openflow::{Match, Message, TableId};

use crate::lab::bridge;

#[test]
fn a_bundle_happens_as_a_whole_or_not_at_all() {
    let (ovs, mut client) = bridge();
    let add = |table, priority| {
        Message::FlowMod(FlowMod::add(TableId(table), priority, Match::any_packet(), vec![]))
    };
    let count = || ovs.ofctl("dump-flows", &[]).matches("priority=").count();
    assert_eq!(client.bundle((1..=1000).map(|n| add(0, n)).collect()), Ok(()));
    assert_eq!(count(), 1000);
    // The second one is wrong: the first is not there either.
    assert_eq!(client.bundle(vec![add(1, 7), add(255, 8)]), Err(flow_mod_failed::BAD_TABLE_ID));
    client.ask(Message::BarrierRequest).expect("all of it is over");
    assert_eq!(count(), 1000);
    // In place of all that was there, at once.
    let clear = Message::FlowMod(FlowMod::new(FlowModCommand::Delete, TableId::ALL, Match::any_packet()));
    assert_eq!(client.bundle(vec![clear, add(0, 9)]), Ok(()));
    assert_eq!(count(), 1);
}

#[test]
fn what_others_installed_is_read_although_the_specification_has_it_not() {
    let (ovs, mut client) = bridge();
    for flow in [
        "priority=7,tcp,tp_dst=80/0xfff0 actions=drop",
        "priority=8,tcp,tcp_flags=+syn-ack,reg1=5 actions=resubmit(,2)",
    ] {
        ovs.ofctl("add-flow", &[flow]);
    }
    let MultipartReply::Flow(stats) =
        client.multipart(MultipartRequest::Flow(FlowStatsRequest::all(TableId::ALL)))
    else {
        panic!("another reply")
    };
    assert_eq!(stats.len(), 2);
    let masked = stats.iter().find(|s| s.priority == 7).expect("it is there");
    assert!(masked.to_string().contains("priority=7,tcp,tp_dst=0x50/0xfff0 actions=drop"), "{masked}");
    // And is written as it was.
    let port = FieldValue::masked(Field::TcpDst, 80_u16, 0xfff0_u16).expect("it fits");
    let mut fields = masked.matching.fields().to_vec();
    fields.retain(|f| *f != Oxm::Basic(port));
    assert_eq!(fields.len() + 1, masked.matching.fields().len());
    let same = Match::unchecked(masked.matching.fields().to_vec());
    let delete = FlowMod { priority: 7, ..FlowMod::new(FlowModCommand::DeleteStrict, TableId(0), same) };
    assert_eq!(client.change(Message::FlowMod(delete)), Ok(()));
    assert_eq!(ovs.ofctl("dump-flows", &[]).matches("priority=").count(), 1);
}
