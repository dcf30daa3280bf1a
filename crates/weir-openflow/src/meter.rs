//! Groups and meters (sections 7.3.4.2 and 7.3.4.4).

use crate::action::{Action, ExperimenterBody};
use crate::numbers::{GroupId, GroupModCommand, GroupType, MeterFlags, MeterId, MeterModCommand, PortNo};

record! {
    /// `OFPT_GROUP_MOD`
    text crate::text::group_mod =>
    pub struct GroupMod {
        /// What is done.
        command: GroupModCommand;
        /// Which buckets a packet takes.
        kind: GroupType, pad 1;
        /// To which group.
        group: GroupId;
        /// What it gets.
        buckets: Vec<Bucket>;
    }
}

record! {
    /// Actions of a group, and when they are done.
    sized 0 text crate::text::bucket =>
    pub struct Bucket {
        @pad 2;
        /// Its share in a select group.
        weight: u16;
        /// The port that has to be live, in a fast failover group.
        watch_port: PortNo;
        /// The group that has to be live, in a fast failover group.
        watch_group: GroupId, pad 4;
        /// What is done.
        actions: Vec<Action>;
    }
}

impl Bucket {
    /// A bucket that watches nothing.
    pub fn of(actions: Vec<Action>) -> Bucket {
        Bucket { weight: 0, watch_port: PortNo::ANY, watch_group: GroupId::ANY, actions }
    }
}

record! {
    /// `OFPT_METER_MOD`
    text crate::text::meter_mod =>
    pub struct MeterMod {
        /// What is done.
        command: MeterModCommand;
        /// How it measures.
        flags: MeterFlags;
        /// To which meter.
        meter: MeterId;
        /// What it gets.
        bands: Vec<MeterBand>;
    }
}

choice! {
    /// A band of a meter: an action on packets above a rate.
    pub enum MeterBand: u16 {
        /// They are dropped.
        1 "drop" Drop(Band),
        /// They become easier to drop.
        2 "dscp_remark" DscpRemark(RemarkBand),
        /// Something of an experimenter.
        0xffff "experimenter" Experimenter(ExperimenterBand),
    }
}

tlv! { MeterBand, inside, type meter_mod_failed::BAD_BAND, length bad_request::BAD_LEN, text crate::text::band }

record! {
    /// A rate.
    => pub struct Band {
        /// In kb/s, or packets/s.
        rate: u32;
        /// In kb, or packets.
        burst_size: u32, pad 4;
    }
}

record! {
    /// A rate, and how much easier to drop packets above it are.
    => pub struct RemarkBand {
        /// In kb/s, or packets/s.
        rate: u32;
        /// In kb, or packets.
        burst_size: u32;
        /// By how much the drop precedence of the DSCP increases.
        prec_level: u8, pad 3;
    }
}

record! {
    /// A rate, and something of an experimenter.
    => pub struct ExperimenterBand {
        /// In kb/s, or packets/s.
        rate: u32;
        /// In kb, or packets.
        burst_size: u32;
        /// What happens above it.
        body: ExperimenterBody;
    }
}
