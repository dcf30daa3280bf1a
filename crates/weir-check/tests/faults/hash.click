// Of the servers that share the work by a hash, the last is in another network.
FromNetfront(wan) -> CheckIPHeader -> IPFilter(allow tcp dst port 80) -> share :: HashSwitch(12, 4);
share [0] -> StoreIPAddress(10.0.0.1, dst) -> lan :: ToNetfront(lan);
share [1] -> StoreIPAddress(10.0.0.2, dst) -> lan;
- share [2] -> StoreIPAddress(10.0.1.3, dst) -> lan;
+ share [2] -> StoreIPAddress(10.0.0.3, dst) -> lan;

only wan lan dst net 10.0.0.0/24
