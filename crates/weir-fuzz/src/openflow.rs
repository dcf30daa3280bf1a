//! OpenFlow: messages, and both ends of a connection.

use std::time::Duration;

use weir_openflow::connection::{Controller, ControllerEvent, Limits, Switch, SwitchEvent};
use weir_openflow::message::Features;
use weir_openflow::numbers::Capabilities;
use weir_openflow::{Choices, Frame, Message};

use crate::mutate::Random;

/// A hello that suits us, and nothing else.
const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];
/// Limits that inputs reach.
const SMALL: Limits = Limits {
    input: 70_000,
    output: 3000,
    requests: 5,
    parts: 2000,
    handshake: Duration::from_secs(1),
    idle: Duration::from_secs(1),
    echo: Duration::from_secs(1),
};

fn features() -> Features {
    Features { datapath: 1, n_buffers: 0, n_tables: 1, auxiliary: 0, capabilities: Capabilities::default() }
}

/// Messages: the reader takes any bytes, and what it accepts comes back as the same bytes, but for padding. Of the bytes as
/// choices a message is made, which comes back as well.
pub fn openflow_messages(data: &[u8]) {
    let made = Frame::any(&mut Choices::new(data));
    if let Ok(bytes) = made.encode() {
        assert_eq!(Frame::decode(&bytes).as_ref(), Ok(&made));
    }
    // The length in the header says the truth: the rest of the reader is looked at as well.
    let mut bytes = data[..data.len().min(usize::from(u16::MAX))].to_vec();
    let length = (bytes.len() as u16).to_be_bytes();
    if let Some(place) = bytes.get_mut(2..4) {
        place.copy_from_slice(&length);
    }
    let Ok(frame) = Frame::decode(&bytes) else { return };
    let again = frame.encode().expect("what was read fits a message");
    assert_eq!(again.len(), bytes.len(), "{frame}");
    for (at, (new, old)) in again.iter().zip(&bytes).enumerate() {
        // A hello says its sender's version; of the flags of a multipart one bit has a meaning.
        let kept = new == old || *new == 0 || at == 0 || (at == 11 && matches!(bytes[1], 18 | 19));
        assert!(kept, "byte {at} was {old:#x} and is {new:#x}: {frame}");
    }
    assert_eq!(Frame::decode(&again).as_ref(), Ok(&frame));
    assert!(!frame.to_string().contains('\n'));
}

/// What a peer sends, in pieces of a length that the first byte says: both ends take any bytes, keep no more than they may, and say
/// nothing after their end.
pub fn openflow_connections(data: &[u8]) {
    let Some((&piece, data)) = data.split_first() else { return };
    let pieces = || data.chunks(usize::from(piece) * 8 + 1);
    let mut switch = Switch::new(features(), SMALL);
    let id = switch.connect(Duration::ZERO);
    switch.receive(id, &HELLO, Duration::ZERO);
    let (mut open, mut ended) = (Vec::new(), false);
    for (n, bytes) in pieces().enumerate() {
        switch.receive(id, bytes, Duration::ZERO);
        let before = switch.output(id).len();
        while let Some(event) = switch.poll() {
            assert!(!ended, "nothing comes after the end: {event:?}");
            match event {
                SwitchEvent::Request { id, message } => open.push((id, message)),
                SwitchEvent::Closed { .. } => ended = true,
                _ => {}
            }
        }
        assert!(ended || open.len() <= SMALL.requests);
        assert!(switch.output(id).len() <= before.max(SMALL.output) + 70_000);
        // Some requests are answered, by what they say, and some of what is written is read.
        if n % 3 != 2 {
            for (id, message) in open.drain(..) {
                switch.answer(id, message).expect("what was read fits a message");
                switch.finish(id);
            }
            switch.sent(id, 1000);
        }
    }
    let mut controller = Controller::new(SMALL, Duration::ZERO);
    controller.receive(&HELLO, Duration::ZERO);
    assert_eq!(controller.poll(), None);
    // It asks for them with its second number.
    let reply = Frame { xid: 2, message: Message::FeaturesReply(features()) }.encode();
    controller.receive(&reply.expect("it is short"), Duration::ZERO);
    assert_eq!(controller.poll(), Some(ControllerEvent::Ready(features())));
    let mut ended = false;
    for bytes in pieces() {
        // What it asks may be answered by what comes.
        let _ = controller.request(Frame::any(&mut Choices::new(bytes)).message);
        let _ = controller.bundle(vec![Frame::any(&mut Choices::new(bytes)).message]);
        controller.receive(bytes, Duration::ZERO);
        while let Some(event) = controller.poll() {
            assert!(!ended, "nothing comes after the end: {event:?}");
            ended = matches!(event, ControllerEvent::Closed(_));
        }
        assert!(controller.output().len() <= 3 * SMALL.output + 70_000);
    }
}

/// Some messages of each kind.
fn messages() -> impl Iterator<Item = Vec<u8>> {
    (0..Message::KINDS.len() * 4).filter_map(|n| {
        let mut random = Random::new(n as u64);
        // A small number, then the kind.
        let mut choices = vec![0, (n / 4) as u8];
        choices.extend((0..200).map(|_| random.byte()));
        Frame::any(&mut Choices::new(&choices)).encode().ok()
    })
}

pub(crate) fn message_seeds() -> Vec<Vec<u8>> {
    messages().collect()
}

pub(crate) fn connection_seeds() -> Vec<Vec<u8>> {
    let all: Vec<Vec<u8>> = messages().collect();
    all.chunks(5).map(|some| [&[some.len() as u8 * 9][..], &some.concat()].concat()).collect()
}
