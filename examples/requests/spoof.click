// It answers, and beside each answer sends a packet as somebody else to one that agreed to get its packets.
FromNetfront() -> IPFilter(allow udp) -> copies :: Tee -> IPMirror -> out :: ToNetfront();
copies [1] -> StoreIPAddress(203.0.113.9, src) -> StoreIPAddress(172.16.15.133, dst) -> out;
