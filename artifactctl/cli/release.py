"""artifactctl release"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from artifactctl.cli.options import Result, Settings, common_options, limit_options, option

if TYPE_CHECKING:
    from artifactctl.project import Limits


@click.command()
@click.argument("model", metavar="MODEL[@vN]")
@option("--dry-run", is_flag=True, help="Write nothing; show what would be done.")
@option("--push", is_flag=True, help="Also push the branch and the tag, together or not at all.")
@option("--remote", metavar="NAME", help="Where to push  [default: the branch's own, else origin]")
@option("--resume", is_flag=True, help="Only go on with a release that was begun.")
@option("--package", metavar="FILE", help="Take this package, opened and proved, instead of making it with Olive.")
@limit_options
@common_options
@click.pass_obj
def release(
    settings: Settings,
    model: str,
    dry_run: bool,
    push: bool,
    remote: str | None,
    resume: bool,
    package: str | None,
    limits: Limits,
) -> Result:
    """Package, commit and tag a version; safe to run twice, and after a kill.

    Everything that could stop it is looked at first. The newest version is released where none is named.
    """
    from pathlib import Path

    from artifactctl import inspection
    from artifactctl.crew import Crew
    from artifactctl.pipeline import release as flow
    from artifactctl.project import ReleaseRequest
    from artifactctl.report.progress import progress
    from artifactctl.report.release import release_data, release_text

    if remote and not push:
        raise click.UsageError("--remote says where to push: add --push")
    project = settings.project()
    root = project.root if project else Path.cwd()
    given = Path(package) if package else None
    if given:
        inspection.existing_file(given)
    request = ReleaseRequest(model, root, project, dry_run, push, remote, resume, given)
    with Crew(limits=limits, verbose=settings.verbose) as crew, progress(settings, "release", 3) as say:
        found = flow(request, crew, say)
    return Result(release_data(found), release_text(found))
