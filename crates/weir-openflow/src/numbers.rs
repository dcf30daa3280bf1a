//! Numbers with names, lists of codes and sets of bits that several messages share.

numbers! {
    /// A port of a switch (`ofp_port_no`).
    PortNo: u32 {
        /// Where the packet came in.
        IN_PORT = 0xffff_fff8 "IN_PORT",
        /// Through the tables: for packets of the controller only.
        TABLE = 0xffff_fff9 "TABLE",
        /// As a switch without OpenFlow does it.
        NORMAL = 0xffff_fffa "NORMAL",
        /// All ports of the VLAN, as a switch without OpenFlow floods.
        FLOOD = 0xffff_fffb "FLOOD",
        /// All ports but the one where the packet came in.
        ALL = 0xffff_fffc "ALL",
        /// The controller.
        CONTROLLER = 0xffff_fffd "CONTROLLER",
        /// The switch's own stack.
        LOCAL = 0xffff_fffe "LOCAL",
        /// No port, or each: where a port is a condition.
        ANY = 0xffff_ffff "ANY",
    }

    /// A group (`ofp_group`).
    GroupId: u32 {
        /// All groups: to delete, or to ask for.
        ALL = 0xffff_fffc "ALL",
        /// No group, or each: where a group is a condition.
        ANY = 0xffff_ffff "ANY",
    }

    /// A table of flows.
    TableId: u8 {
        /// All tables.
        ALL = 0xff "ALL",
    }

    /// A meter (`ofp_meter`).
    MeterId: u32 {
        /// The one of packets that take the slow path.
        SLOWPATH = 0xffff_fffd "slowpath",
        /// The one of packets to the controller.
        CONTROLLER = 0xffff_fffe "controller",
        /// All meters: to delete, or to ask for.
        ALL = 0xffff_ffff "all",
    }

    /// A queue of a port.
    QueueId: u32 {
        /// All queues: to ask for.
        ALL = 0xffff_ffff "ALL",
    }

    /// A packet that the switch keeps.
    BufferId: u32 {
        /// None: the packet is in the message.
        NONE = 0xffff_ffff "none",
    }

    /// How many bytes of a packet go to the controller.
    MaxLen: u16 {
        /// All, and the switch keeps nothing.
        NO_BUFFER = 0xffff "no_buffer",
    }
}

/// The last number of a port of its own.
pub const PORT_MAX: u32 = 0xffff_ff00;
/// The last number of a group.
pub const GROUP_MAX: u32 = 0xffff_ff00;
/// The last number of a table.
pub const TABLE_MAX: u8 = 0xfe;
/// The last number of a meter.
pub const METER_MAX: u32 = 0xffff_0000;

codes! {
    /// Why a packet goes to the controller (`ofp_packet_in_reason`).
    PacketInReason: u8, bad_request::BAD_TYPE {
        /// No entry matches: the table-miss entry.
        NoMatch = 0 "no_match",
        /// An action says so.
        Action = 1 "action",
        /// Its TTL is not valid.
        InvalidTtl = 2 "invalid_ttl",
    }

    /// Why an entry is gone (`ofp_flow_removed_reason`).
    FlowRemovedReason: u8, bad_request::BAD_TYPE {
        /// Nothing came for it.
        IdleTimeout = 0 "idle",
        /// Its time is over.
        HardTimeout = 1 "hard",
        /// It was deleted.
        Delete = 2 "delete",
        /// Its group was deleted.
        GroupDelete = 3 "group_delete",
    }

    /// What happened to a port (`ofp_port_reason`).
    PortReason: u8, bad_request::BAD_TYPE {
        /// It is new.
        Add = 0 "ADD",
        /// It is gone.
        Delete = 1 "DEL",
        /// Something of it is another.
        Modify = 2 "MOD",
    }

    /// What is done to entries (`ofp_flow_mod_command`).
    FlowModCommand: u8, flow_mod_failed::BAD_COMMAND {
        /// A new one, in place of an equal one.
        Add = 0 "ADD",
        /// All that match get other instructions.
        Modify = 1 "MOD",
        /// The one with this match and priority gets other instructions.
        ModifyStrict = 2 "MOD_STRICT",
        /// All that match go.
        Delete = 3 "DEL",
        /// The one with this match and priority goes.
        DeleteStrict = 4 "DEL_STRICT",
    }

    /// What is done to a group (`ofp_group_mod_command`).
    GroupModCommand: u16, group_mod_failed::BAD_COMMAND {
        /// A new one.
        Add = 0 "ADD",
        /// It gets other buckets.
        Modify = 1 "MOD",
        /// It goes, and entries that use it.
        Delete = 2 "DEL",
    }

    /// Which buckets of a group a packet takes (`ofp_group_type`).
    GroupType: u8, group_mod_failed::BAD_TYPE {
        /// All.
        All = 0 "all",
        /// One, by weight.
        Select = 1 "select",
        /// The only one.
        Indirect = 2 "indirect",
        /// The first that is live.
        FastFailover = 3 "ff",
    }

    /// What is done to a meter (`ofp_meter_mod_command`).
    MeterModCommand: u16, meter_mod_failed::BAD_COMMAND {
        /// A new one.
        Add = 0 "ADD",
        /// It gets other bands.
        Modify = 1 "MOD",
        /// It goes, and entries that use it.
        Delete = 2 "DEL",
    }

    /// What a controller may do (`ofp_controller_role`).
    Role: u32, role_request_failed::BAD_ROLE {
        /// As it was: to ask.
        NoChange = 0 "nochange",
        /// All, as others with this role.
        Equal = 1 "equal",
        /// All; at most one controller is that (`OFPCR_ROLE_MASTER`).
        Primary = 2 "primary",
        /// Only read (`OFPCR_ROLE_SLAVE`).
        Secondary = 3 "secondary",
    }
}

flags! {
    /// The configuration of a port (`ofp_port_config`).
    PortConfig: u32 {
        /// It is down.
        PORT_DOWN = 0 "PORT_DOWN",
        /// Takes no packets.
        NO_RECV = 2 "NO_RECV",
        /// Sends no packets.
        NO_FWD = 5 "NO_FWD",
        /// Its packets do not go to the controller.
        NO_PACKET_IN = 6 "NO_PACKET_IN",
    }

    /// How a port is (`ofp_port_state`).
    PortState: u32 {
        /// No link.
        LINK_DOWN = 0 "LINK_DOWN",
        /// Blocked, as by a spanning tree.
        BLOCKED = 1 "BLOCKED",
        /// Live, for fast failover.
        LIVE = 2 "LIVE",
    }

    /// What a port can (`ofp_port_features`).
    PortFeatures: u32 {
        /// 10 Mb/s, half duplex.
        MB_10_HD = 0 "10MB-HD",
        /// 10 Mb/s.
        MB_10_FD = 1 "10MB-FD",
        /// 100 Mb/s, half duplex.
        MB_100_HD = 2 "100MB-HD",
        /// 100 Mb/s.
        MB_100_FD = 3 "100MB-FD",
        /// 1 Gb/s, half duplex.
        GB_1_HD = 4 "1GB-HD",
        /// 1 Gb/s.
        GB_1_FD = 5 "1GB-FD",
        /// 10 Gb/s.
        GB_10_FD = 6 "10GB-FD",
        /// 40 Gb/s.
        GB_40_FD = 7 "40GB-FD",
        /// 100 Gb/s.
        GB_100_FD = 8 "100GB-FD",
        /// 1 Tb/s.
        TB_1_FD = 9 "1TB-FD",
        /// Another rate.
        OTHER = 10 "OTHER",
        /// Copper.
        COPPER = 11 "COPPER",
        /// Fiber.
        FIBER = 12 "FIBER",
        /// Auto-negotiation.
        AUTONEG = 13 "AUTO_NEG",
        /// Pause.
        PAUSE = 14 "AUTO_PAUSE",
        /// Asymmetric pause.
        PAUSE_ASYM = 15 "AUTO_PAUSE_ASYM",
    }

    /// What a switch can (`ofp_capabilities`).
    Capabilities: u32 {
        /// Counters of flows.
        FLOW_STATS = 0 "FLOW_STATS",
        /// Counters of tables.
        TABLE_STATS = 1 "TABLE_STATS",
        /// Counters of ports.
        PORT_STATS = 2 "PORT_STATS",
        /// Counters of groups.
        GROUP_STATS = 3 "GROUP_STATS",
        /// Reassembles IP fragments.
        IP_REASM = 5 "IP_REASM",
        /// Counters of queues.
        QUEUE_STATS = 6 "QUEUE_STATS",
        /// Blocks ports that make loops.
        PORT_BLOCKED = 8 "PORT_BLOCKED",
    }

    /// What a flow entry is (`ofp_flow_mod_flags`).
    FlowModFlags: u16, only flow_mod_failed::BAD_FLAGS {
        /// The controller hears of its end.
        SEND_FLOW_REM = 0 "send_flow_rem",
        /// It is refused if it overlaps with one of its priority.
        CHECK_OVERLAP = 1 "check_overlap",
        /// Its counters start anew.
        RESET_COUNTS = 2 "reset_counts",
        /// Packets are not counted.
        NO_PKT_COUNTS = 3 "no_packet_counts",
        /// Bytes are not counted.
        NO_BYT_COUNTS = 4 "no_byte_counts",
    }

    /// How a meter measures (`ofp_meter_flags`).
    MeterFlags: u16, only meter_mod_failed::BAD_FLAGS {
        /// Rates are kb/s.
        KBPS = 0 "kbps",
        /// Rates are packets/s.
        PKTPS = 1 "pktps",
        /// Bands have a burst size.
        BURST = 2 "burst",
        /// It counts.
        STATS = 3 "stats",
    }

    /// The configuration of a table; nothing but what older versions said (`ofp_table_config`).
    TableConfig: u32 {}

    /// What groups can (`ofp_group_capabilities`).
    GroupCapabilities: u32 {
        /// Weights in select groups.
        SELECT_WEIGHT = 0 "select_weight",
        /// Liveness in select groups.
        SELECT_LIVENESS = 1 "select_liveness",
        /// Groups that lead to groups.
        CHAINING = 2 "chaining",
        /// Loops of groups are refused.
        CHAINING_CHECKS = 3 "chaining_checks",
    }
}
