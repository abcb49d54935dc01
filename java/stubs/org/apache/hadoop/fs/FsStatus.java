package org.apache.hadoop.fs;

public class FsStatus {
}
