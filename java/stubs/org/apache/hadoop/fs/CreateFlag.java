package org.apache.hadoop.fs;

public enum CreateFlag {
    CREATE, OVERWRITE
}
