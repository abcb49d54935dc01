package org.apache.hadoop.fs;

import java.io.IOException;

public class FileAlreadyExistsException extends IOException {
    public FileAlreadyExistsException(String message) {
        super(message);
    }
}
