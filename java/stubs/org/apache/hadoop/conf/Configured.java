package org.apache.hadoop.conf;

public class Configured {
    public Configuration getConf() {
        throw new UnsupportedOperationException();
    }

    public void setConf(Configuration conf) {
        throw new UnsupportedOperationException();
    }
}
