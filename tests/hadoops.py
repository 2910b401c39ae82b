"""Hadoop 3.4.2 in one process, with the jobs of tests/hadoop."""

import subprocess

import clouds


def build(folder):
    """Compiles the jobs into a folder; the path of all classes."""
    clouds.need("mvn", "java")
    target, classpath = folder / "target", folder / "classpath.txt"
    goals = ["compile", "dependency:build-classpath"]
    where = [f"-DbuildDirectory={target}", f"-Dmdep.outputFile={classpath}"]
    maven = ["mvn", "--quiet", "--batch-mode", "--no-transfer-progress", "-Dstyle.color=never"]
    subprocess.run([*maven, *goals, *where], cwd=clouds.HERE / "hadoop", check=True,
                   timeout=clouds.INSTALL_SECONDS_MAX)
    return f"{target / 'classes'}:{classpath.read_text().strip()}"


def command(classes, folder, job, *words):
    """Runs a job, a class with what it wants before settings; its own files are in a folder."""
    own = ["mapreduce.framework.name=local", "fs.defaultFS=file:///",
           f"hadoop.tmp.dir={folder}/hadoop"]
    own = [word for setting in own for word in ("-D", setting)]
    return ["java", "-Xmx2g", "-cp", classes, *job, *own, *map(str, words)]
