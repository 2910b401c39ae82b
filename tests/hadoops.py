"""Hadoop 3.4.2 in one process, with the jobs of tests/hadoop."""

import clouds
import made


def build():
    """Compiles the jobs; the path of all classes."""
    clouds.need("mvn", "java")
    return made.java("hadoop")


def command(classes, folder, job, *words):
    """Runs a job, a class with what it wants before settings; its own files are in a folder."""
    own = ["mapreduce.framework.name=local", "fs.defaultFS=file:///",
           f"hadoop.tmp.dir={folder}/hadoop"]
    own = [word for setting in own for word in ("-D", setting)]
    return ["java", "-Xmx2g", "-cp", classes, *job, *own, *map(str, words)]
