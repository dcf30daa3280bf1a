//! Messages to bytes and back: for all values, and for any bytes.

use proptest::prelude::*;
use weir_openflow::{Choices, Frame, Match, Message};

/// What is accepted comes back as the same bytes, but for padding, which is zero then.
fn keeps_its_promise(bytes: &[u8]) -> bool {
    let Ok(frame) = Frame::decode(bytes) else { return false };
    let again = frame.encode().expect("what was read fits a message");
    assert_eq!(again.len(), bytes.len(), "{frame}");
    for (at, (new, old)) in again.iter().zip(bytes).enumerate() {
        // A hello says its sender's version; of the flags of a multipart one bit has a meaning.
        let kept = new == old || *new == 0 || at == 0 || (at == 11 && matches!(bytes[1], 18 | 19));
        assert!(kept, "byte {at} was {old:#x} and is {new:#x}: {frame}");
    }
    assert_eq!(Frame::decode(&again).as_ref(), Ok(&frame));
    assert!(!frame.to_string().contains('\n'));
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_comes_back(choices in proptest::collection::vec(any::<u8>(), 0..300)) {
        let frame = Frame::any(&mut Choices::new(&choices));
        let bytes = frame.encode().expect("choices make short messages");
        prop_assert_eq!(Frame::decode(&bytes), Ok(frame));
    }

    #[test]
    fn matches_of_the_same_packets_have_one_form(choices in proptest::collection::vec(any::<u8>(), 0..100)) {
        let Message::FlowMod(flow) = Frame::any(&mut Choices::new(&[&[0, 14][..], &choices].concat())).message else {
            panic!("14 is a flow-mod")
        };
        let normal = flow.matching.normal();
        prop_assert_eq!(&normal.normal(), &normal);
        prop_assert_eq!(normal.to_string(), flow.matching.to_string());
        let mut turned = flow.matching.fields().to_vec();
        turned.reverse();
        if let Ok(turned) = Match::new(turned) {
            let turned = turned.normal();
            prop_assert_eq!(turned.basic().collect::<Vec<_>>(), normal.basic().collect::<Vec<_>>());
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_kept(
        choices in proptest::collection::vec(any::<u8>(), 0..300),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let frame = Frame::any(&mut Choices::new(&choices));
        let mut bytes = frame.encode().expect("choices make short messages");
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        // The length in the header says the truth: all else is looked at as well.
        let length = bytes.len() as u16;
        if let Some(place) = bytes.get_mut(2..4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        keeps_its_promise(&bytes);
    }
}
