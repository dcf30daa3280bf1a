//! Queues of ports (sections 7.2.2 and 7.3.6).

use crate::numbers::{PortNo, QueueId};
use crate::wire::AlignedBytes;

record! {
    /// `OFPT_QUEUE_GET_CONFIG_REQUEST`
    => pub struct QueueConfigRequest {
        /// Of which port; `ANY`: of all.
        port: PortNo, pad 4;
    }
}

record! {
    /// `OFPT_QUEUE_GET_CONFIG_REPLY`
    => pub struct QueueConfig {
        /// Of which port.
        port: PortNo, pad 4;
        /// Its queues.
        queues: Vec<Queue>;
    }
}

record! {
    /// A queue.
    sized 8
    => pub struct Queue {
        /// Its number at the port.
        queue: QueueId;
        /// The port.
        port: PortNo, pad 8;
        /// What is known of it.
        properties: Vec<QueueProperty>;
    }
}

choice! {
    /// A property of a queue.
    pub enum QueueProperty: u16 {
        /// The rate that it has for sure.
        1 "min_rate" MinRate(QueueRate),
        /// The rate that it does not exceed.
        2 "max_rate" MaxRate(QueueRate),
        /// Something of an experimenter.
        0xffff "experimenter" Experimenter(QueueExperimenter),
    }
}

tlv! { QueueProperty, inside, type bad_request::BAD_TYPE, length bad_request::BAD_LEN }

record! {
    /// A rate.
    => pub struct QueueRate {
        @pad 4;
        /// In tenths of a percent of the port's; above 1000: none.
        rate: u16, pad 6;
    }
}

record! {
    /// Something of an experimenter.
    => pub struct QueueExperimenter {
        @pad 4;
        /// Their number.
        experimenter: u32, pad 4;
        /// What only they know.
        data: AlignedBytes;
    }
}
