// third-party: Destination, Packet
// Echo requests are answered; by one branch of a hash the answer goes to somebody who did not ask.
FromNetfront() -> CheckIPHeader -> IPFilter(allow icmp type echo) -> ICMPPingResponder -> share :: HashSwitch(12, 4);
share [0] -> out :: ToNetfront();
- share [1] -> StoreIPAddress(198.51.100.66, dst) -> out;
+ share [1] -> StoreIPAddress(172.16.15.133, dst) -> out;
