switch :: EtherSwitch(TIMEOUT $TIMEOUT, CAPACITY $ADDRESSES);
in_0 -> [0] switch [0] -> out_0;
in_1 -> [1] switch [1] -> out_1;
in_2 -> [2] switch [2] -> out_2;
in_3 -> [3] switch [3] -> out_3;
