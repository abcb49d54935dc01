package org.apache.hadoop.fs.permission;

public class FsPermission {
}
